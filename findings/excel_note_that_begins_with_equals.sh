#!/usr/bin/env bash
# pandas 3.1.1 with openpyxl 3.1.5: a note that begins with = is lost on the way through a workbook.
#
# Guess: to_excel writes text columns as text, so read_excel returns them.
# Behaviour: A text such as "= see the note of Monday" is written as a formula. No program has computed it, so
# read_excel returns a missing value. "=3+4" is lost in the same way.
# Instead: prefix such texts before writing, or set data_type of the cells to "s"; count missing texts after
# reading.
# Seen: "missing: [True, True, False]".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile pandas==3.1.1 openpyxl==3.1.5 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import pandas

notes = ["= see the note of Monday", "=3+4", "plain"]
pandas.DataFrame({"text": notes}).to_excel("notes.xlsx", index=False)
read = pandas.read_excel("notes.xlsx")["text"]
print("missing:", read.isna().tolist())
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "missing: [True, True, False]"
