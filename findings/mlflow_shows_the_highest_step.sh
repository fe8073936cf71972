#!/usr/bin/env bash
# mlflow 3.17.2: a run shows the value of the highest step, and of two at one step and time the larger.
#
# Guess: The value of a metric that run.data.metrics and the page show is the one that was logged last.
# Behaviour: A run that was resumed from step 3 after a crash at step 5 goes on showing the value of step 5 until it
# passes it. Where step and time are equal, as in a batch, the larger value is shown, whichever came last: for a
# loss, the worse one.
# Instead: log a total under a name of its own, once, or at a step above all others.
# Seen: "{'accuracy': 0.5, 'loss': 0.9}".
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

import mlflow
from mlflow.entities import Metric

logging.disable(logging.WARNING)
mlflow.set_tracking_uri("sqlite:///store.db")
client = mlflow.MlflowClient()
run = client.create_run("0").info.run_id
for metric in (("accuracy", 0.5, 10, 5), ("accuracy", 0.3, 20, 3), ("loss", 0.9, 10, 1), ("loss", 0.2, 10, 1)):
    client.log_batch(run, metrics=[Metric(*metric)])
print(client.get_run(run).data.metrics)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "{'accuracy': 0.5, 'loss': 0.9}"
