#!/usr/bin/env bash
# pandas 3.1.1 with xlsxwriter 3.2.9: a long note that begins with a link is not written.
#
# Guess: A text is a text, whatever it begins with, up to the 32,767 characters of the format.
# Behaviour: A text that begins with https:// becomes a link. A link may have 2,079 characters, so a longer note
# leaves an empty cell and a Python warning. pandas uses xlsxwriter wherever it is installed, so installing it
# changes what to_excel keeps: openpyxl writes the note.
# Instead: ExcelWriter(..., engine_kwargs={"options": {"strings_to_urls": False}}), or engine="openpyxl".
# Seen: "{'xlsxwriter': [0, 3006], 'openpyxl': [3222, 3006]}".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile pandas==3.1.1 xlsxwriter==3.2.9 openpyxl==3.1.5 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import pandas

notes = ["https://example.org/7 " + "The router fails every evening. " * 100, "plain " + "x" * 3000]
frame = pandas.DataFrame({"text": notes})
lengths = {}
for engine in (None, "openpyxl"):
    frame.to_excel("notes.xlsx", index=False, engine=engine)
    read = pandas.read_excel("notes.xlsx", keep_default_na=False)["text"]
    lengths[engine or pandas.ExcelWriter("other.xlsx").engine] = [len(text) for text in read]
print(lengths)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "{'xlsxwriter': [0, 3006], 'openpyxl': [3222, 3006]}"
