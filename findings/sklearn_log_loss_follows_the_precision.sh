#!/usr/bin/env bash
# scikit-learn 1.9.1: the log loss of certain predictions depends on the type of the array.
#
# Guess: log_loss of the same probabilities is the same number in float64 and in float32, up to rounding.
# Behaviour: A probability of 0 is replaced by the smallest step of its type. One certain and wrong prediction of
# four costs 9.01 in float64 and 3.99 in float32, the type that neural classifiers return. Two students with equal
# predictions seem to differ, and the neural one looks better.
# Instead: convert probabilities to float64 before the loss, or clip them to a limit of your own.
# Seen: "float64 9.011, float32 3.986, float16 1.733".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import numpy as np
from sklearn.metrics import log_loss

labels = [0, 1, 1, 0]
certain = np.array([[1, 0], [0, 1], [1, 0], [1, 0]])
losses = {name: log_loss(labels, certain.astype(name)) for name in ("float64", "float32", "float16")}
print(", ".join(f"{name} {loss:.3f}" for name, loss in losses.items()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "float64 9.011, float32 3.986, float16 1.733"
