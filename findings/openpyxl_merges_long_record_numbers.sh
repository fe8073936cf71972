#!/usr/bin/env bash
# openpyxl 3.1.5: two whole numbers of 17 digits become one in a workbook.
#
# Guess: openpyxl writes Python's whole numbers digit by digit: the file is XML, and Python reads them exactly.
# Behaviour: Numbers are written with 16 digits. The records 12345678901234567 and 12345678901234569 are both
# 12345678901234570 in the file: two persons become one, without a message.
# Instead: write numbers that name something as text.
# Seen: "1.234567890123457e+16 1.234567890123457e+16".
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
import openpyxl

book = openpyxl.Workbook()
book.active.append([12345678901234567, 12345678901234569])
book.save("numbers.xlsx")
cells = openpyxl.load_workbook("numbers.xlsx").active[1]
print(*(cell.value for cell in cells))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "1.234567890123457e+16 1.234567890123457e+16"
