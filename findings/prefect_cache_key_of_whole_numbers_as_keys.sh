#!/usr/bin/env bash
# prefect 3.9.1: inputs {1: "a"} and {"1": "a"} have one cache key.
#
# Guess: A task whose results are cached by its inputs keeps different inputs apart.
# Behaviour: Inputs are hashed as JSON, in which every key of a dictionary is text and a tuple is a list. A task
# that gets shards by number and one that gets them by name find each other's result. 1 and 1.0 are kept apart.
# Instead: pass lists of pairs with typed values, or give a cache_key_fn.
# Seen: "number and text as key: True, tuple and list: True, 1 and 1.0: False".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile prefect==3.9.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
from prefect.utilities.hashing import hash_objects

pairs = {
    "number and text as key": ({1: "a"}, {"1": "a"}),
    "tuple and list": ((1, 2), [1, 2]),
    "1 and 1.0": (1, 1.0),
}
equal = {name: hash_objects(first) == hash_objects(second) for name, (first, second) in pairs.items()}
print(", ".join(f"{name}: {value}" for name, value in equal.items()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "number and text as key: True, tuple and list: True, 1 and 1.0: False"
