#!/usr/bin/env bash
# openpyxl 3.1.5: a text of more than 32,767 characters is cut without a message.
#
# Guess: The limit of the format is an error, or at least a warning.
# Behaviour: A cell keeps the first 32,767 characters, and openpyxl gives neither. Long records, such as discharge
# letters, lose their end. (pandas' own writer warns before it calls openpyxl; rows appended to a sheet do not.)
# Instead: refuse texts above the limit before writing, or use another format.
# Seen: "length 32767, warnings 0".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile openpyxl==3.1.5 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import warnings

import openpyxl

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    book = openpyxl.Workbook()
    book.active.append(["x" * 40_000])
    book.save("notes.xlsx")
length = len(openpyxl.load_workbook("notes.xlsx").active["A1"].value)
about = [warning for warning in caught if "32" in str(warning.message) or "long" in str(warning.message)]
print(f"length {length}, warnings {len(about)}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "length 32767, warnings 0"
