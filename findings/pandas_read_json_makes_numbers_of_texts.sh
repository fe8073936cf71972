#!/usr/bin/env bash
# pandas 3.1.1: read_json makes numbers of a column whose JSON texts are digits.
#
# Guess: JSON states the type of each value, so the text "001" stays the text "001", as json.loads reads it.
# Behaviour: A column whose texts can all be read as numbers becomes one of numbers: the classes "001" and "1" are one
# class, and the messages "1e5" and "12" are 100000.0 and 12.0. One text more that is no number, and all stay texts.
# to_json and read_json of one table are therefore no round trip.
# Instead: read_json(..., dtype=False), or dtype={"label": str}.
# Seen: "labels 1 1, texts 100000.0 12.0; with dtype=False 001 1, 1e5 12".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile pandas==3.1.1 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import pandas as pd

with open("rows.jsonl", "w") as file:
    file.write('{"label": "001", "text": "1e5"}\n{"label": "1", "text": "12"}\n')
first = pd.read_json("rows.jsonl", lines=True)
second = pd.read_json("rows.jsonl", lines=True, dtype=False)
print("labels", *first["label"], end=", texts ")
print(*first["text"], end="; with dtype=False ")
print(*second["label"], end=", ")
print(*second["text"])
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "labels 1 1, texts 100000.0 12.0; with dtype=False 001 1, 1e5 12"
