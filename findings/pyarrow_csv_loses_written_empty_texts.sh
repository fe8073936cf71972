#!/usr/bin/env bash
# pyarrow 25.0.1: a table with empty texts and nulls comes back from its own CSV with nulls alone.
#
# Guess: write_csv quotes the empty text and leaves a null bare; read_csv with strings_can_be_null reads both back.
# Behaviour: The file tells them apart, and the reader ignores the quotes: with strings_can_be_null=True both are
# null, without it both are empty. A second option, quoted_strings_can_be_null=False, reads what was written. polars
# reads its own file right.
# Instead: ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False).
# Seen: "without options ['', 'x', ''] with nulls [None, 'x', None] bare nulls alone ['', 'x', None]".
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

import pyarrow
from pyarrow import csv

written = io.BytesIO()
csv.write_csv(pyarrow.table({"text": ["", "x", None], "row": [1, 2, 3]}), written)

def read(**options):
    table = csv.read_csv(io.BytesIO(written.getvalue()), convert_options=csv.ConvertOptions(**options))
    return table["text"].to_pylist()


bare = read(strings_can_be_null=True, quoted_strings_can_be_null=False)
print("without options", read(), "with nulls", read(strings_can_be_null=True), "bare nulls alone", bare)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "without options ['', 'x', ''] with nulls [None, 'x', None] bare nulls alone ['', 'x', None]"
