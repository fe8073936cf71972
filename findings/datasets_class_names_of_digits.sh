#!/usr/bin/env bash
# datasets 5.2.0: a class name that does not exist becomes a class if it is a number.
#
# Guess: ClassLabel(names=["1", "2", "3"]) refuses the label "0", as it refuses "zero".
# Behaviour: A name that is not in the list is read as the number of a class. With stars from 1 to 3, a stray "0"
# becomes the class 0, which is called "1": the two are one class from then on, without a message.
# Instead: compare the labels with the names before the cast, or give names that are no numbers.
# Seen: "0, 1, 2 became 1, 1, 2; zero is refused".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile datasets==5.2.0 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
from datasets import ClassLabel, Dataset

stars = ClassLabel(names=["1", "2", "3"])
cast = Dataset.from_dict({"label": ["0", "1", "2"]}).cast_column("label", stars)
names = [stars.int2str(number) for number in cast["label"]]
try:
    refused = stars.str2int("zero")
except ValueError:
    refused = "refused"
print(f"0, 1, 2 became {', '.join(names)}; zero is {refused}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "0, 1, 2 became 1, 1, 2; zero is refused"
