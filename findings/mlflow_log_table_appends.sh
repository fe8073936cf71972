#!/usr/bin/env bash
# mlflow 3.17.2: log_table with the name of an existing table appends to it.
#
# Guess: log_table writes a file, as log_dict and log_text do: a second call replaces the first.
# Behaviour: Rows are appended. A step that is repeated after a failure leaves every row twice, and averages over
# the table count them twice. log_dict of the same name replaces.
# Instead: log_dict or log_artifact for results of steps that may run again.
# Seen: "table 4 dict 2".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile mlflow==3.17.2 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import logging
import os

import mlflow

logging.disable(logging.WARNING)
os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
mlflow.set_tracking_uri("sqlite:///store.db")
with mlflow.start_run() as run:
    for _ in range(2):
        mlflow.log_table({"text": ["a", "b"]}, "texts.json")
        mlflow.log_dict({"text": ["a", "b"]}, "texts_of_dict.json")
rows = len(mlflow.load_table("texts.json", run_ids=[run.info.run_id]))
print("table", rows, "dict", len(mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/texts_of_dict.json")["text"]))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "table 4 dict 2"
