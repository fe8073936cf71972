#!/usr/bin/env bash
# pyarrow 25.0.1: the pickle of a slice of a table contains the texts of all rows.
#
# Guess: table.slice(0, 10) sent to another process contains ten rows, as a slice of pandas or numpy does.
# Behaviour: A slice is a view, and its pickle has the whole buffers. The receiver sees ten rows, and the bytes
# contain every text, also those that were left out because their persons objected. A written IPC or Parquet file of
# the slice contains the ten rows alone.
# Instead: table.take(range(10)) or write IPC before a slice of private rows leaves a process.
# Seen: "slice True, take False, pandas False, file False".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile pyarrow==25.0.1 pandas==3.1.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import io
import pickle

import pandas
import pyarrow
from pyarrow import parquet

rows = [f"text {number}" for number in range(50)] + ["the text of a person who objected"]
table = pyarrow.table({"text": rows})
part = table.slice(0, 10)
file = io.BytesIO()
parquet.write_table(part, file, compression="none")
written = {
    "slice": pickle.dumps(part),
    "take": pickle.dumps(table.take(list(range(10)))),
    "pandas": pickle.dumps(pandas.DataFrame({"text": rows})[:10]),
    "file": file.getvalue(),
}
print(", ".join(f"{name} {rows[-1].encode() in content}" for name, content in written.items()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "slice True, take False, pandas False, file False"
