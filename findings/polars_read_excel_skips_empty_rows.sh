#!/usr/bin/env bash
# polars 2.1.0 with fastexcel 0.21.0: read_excel leaves out empty rows, pandas keeps them.
#
# Guess: The third row of a sheet is the third row of the table, whichever library reads it.
# Behaviour: polars drops rows without any value by default, so all rows below an empty one move up. Labels that a
# second program wrote by row number belong to other texts.
# Instead: read_excel(..., drop_empty_rows=False) and a column that names the row.
# Seen: "polars 2 pandas 3 option 3".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile \
  polars==2.1.0 fastexcel==0.21.0 openpyxl==3.1.5 pandas==3.1.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import openpyxl
import pandas
import polars

book = openpyxl.Workbook()
for row in (["text"], ["a"], [None], ["b"]):
    book.active.append(row)
book.save("rows.xlsx")
kept = polars.read_excel("rows.xlsx", drop_empty_rows=False)
print("polars", len(polars.read_excel("rows.xlsx")), "pandas", len(pandas.read_excel("rows.xlsx")), "option", len(kept))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "polars 2 pandas 3 option 3"
