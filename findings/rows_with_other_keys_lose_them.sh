#!/usr/bin/env bash
# datasets 5.2.0 and pyarrow 25.0.1: a list of rows becomes a table with the keys of its first row.
#
# Guess: Rows with different keys give a table with all keys and nulls, as in pandas.
# Behaviour: Dataset.from_list and pyarrow.Table.from_pylist take the columns of the first row and leave out all
# other values without a message. Rows of which only some have a label lose every label if the first has none.
# Instead: pandas.DataFrame(rows) first, or the columns by name: Dataset.from_dict, from_pylist(rows, schema=...).
# Seen: "datasets ['text'] pyarrow ['text'] pandas ['text', 'label']".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile datasets==5.2.0 pyarrow==25.0.1 pandas==3.1.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import pandas
import pyarrow
from datasets import Dataset

rows = [{"text": "a"}, {"text": "b", "label": "billing"}]
columns = Dataset.from_list(rows).column_names, pyarrow.Table.from_pylist(rows).column_names
print(f"datasets {columns[0]} pyarrow {columns[1]} pandas {list(pandas.DataFrame(rows).columns)}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "datasets ['text'] pyarrow ['text'] pandas ['text', 'label']"
