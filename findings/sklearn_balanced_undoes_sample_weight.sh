#!/usr/bin/env bash
# scikit-learn 1.9.1: class_weight="balanced" takes back what sample_weight gives to a class.
#
# Guess: Balanced class weights come from the number of rows of each class and are multiplied with sample_weight, so
# rows of weight 5 pull five times as much.
# Behaviour: LogisticRegression balances the sums of sample_weight. Weights of 5 for one of two equally large
# classes, for example for texts whose soft labels are trusted more, change the mean probability of that class from
# 0.5024 to 0.5024; without balancing they move it to 0.7114. The weights still count within a class.
# Instead: leave out class_weight where sample_weight contains the weight of a class.
# Seen: "balanced 0.502 balanced and weighted 0.502 weighted 0.711".
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
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

rows, labels = make_classification(600, 10, random_state=0, flip_y=0.2)
weights = np.where(labels == 1, 5.0, 1.0)


def mean(class_weight, sample_weight=None):
    model = LogisticRegression(class_weight=class_weight).fit(rows, labels, sample_weight=sample_weight)
    return f"{model.predict_proba(rows)[:, 1].mean():.3f}"


print("balanced", mean("balanced"), "balanced and weighted", mean("balanced", weights), "weighted", mean(None, weights))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "balanced 0.502 balanced and weighted 0.502 weighted 0.711"
