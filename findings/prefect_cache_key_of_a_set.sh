#!/usr/bin/env bash
# prefect 3.9.1: a set of texts has another cache key in each process.
#
# Guess: A task whose results are cached by its inputs finds its result in the next process; prefect uses no hash()
# of Python.
# Behaviour: A set is no JSON, so its pickle is hashed, and a pickle has the elements in the order of this process's
# hash seed. A result that is cached by a set of class names is not found by the next worker, and is computed, or
# paid, again. Sorted lists are found.
# Instead: pass sorted(labels).
# Seen: "one key for a set: False for a sorted list: True".
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
import os
import subprocess
import sys

KEY = "from prefect.utilities.hashing import hash_objects; print(hash_objects(%s))"


def keys(value):
    command = [sys.executable, "-c", KEY % value]
    seeds = [os.environ | {"PYTHONHASHSEED": str(seed)} for seed in range(1, 5)]
    runs = [subprocess.run(command, env=seed, capture_output=True, check=True) for seed in seeds]
    return len({run.stdout for run in runs})


labels = {"login", "billing", "other"}
print("one key for a set:", keys(repr(labels)) == 1, "for a sorted list:", keys(repr(sorted(labels))) == 1)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "one key for a set: False for a sorted list: True"
