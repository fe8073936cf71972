#!/usr/bin/env bash
# pyarrow 25.0.1: a left join moves the rows without a match to the end.
#
# Guess: A left join of five rows keeps their order, as in pandas and polars.
# Behaviour: The rows with a match come first, those without one last. Vectors or votes that are kept beside a table
# in its old order then belong to other rows.
# Instead: join with a column of row numbers and sort by it.
# Seen: "same order: False last two: [7, 9]".
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
import pyarrow

left = pyarrow.table({"key": [3, 9, 1, 7, 2]})
right = pyarrow.table({"key": [1, 2, 3], "label": ["a", "b", "c"]})
keys = left.join(right, "key", join_type="left outer")["key"].to_pylist()
print("same order:", keys == [3, 9, 1, 7, 2], "last two:", sorted(keys[-2:]))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "same order: False last two: [7, 9]"
