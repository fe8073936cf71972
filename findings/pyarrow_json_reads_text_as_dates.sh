#!/usr/bin/env bash
# pyarrow 25.0.1: a JSON text column becomes a timestamp if all its texts look like dates.
#
# Guess: JSON has strings and no dates, so a quoted value stays text.
# Behaviour: read_json makes a timestamp of a column whose values are all of the form 2024-01-02. The type depends
# on the rows: with one other text in the file the column is text, and a note "2024-01-02" changes to midnight, in
# one file of a data set and not in the next.
# Instead: explicit_schema in ParseOptions for every text column.
# Seen: "dates alone: timestamp[s] with another text: string".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile pyarrow==25.0.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import io

from pyarrow import json

dates = b'{"note": "2024-01-02"}\n{"note": "2024-01-03"}\n'
types = [json.read_json(io.BytesIO(lines)).schema.field("note").type for lines in (dates, dates + b'{"note": "no date"}\n')]
print("dates alone:", types[0], "with another text:", types[1])
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "dates alone: timestamp[s] with another text: string"
