#!/usr/bin/env bash
# scikit-learn 1.9.1: calibration by temperature changes predicted classes.
#
# Guess: One temperature divides all logits, so CalibratedClassifierCV(method="temperature") changes certainties and
# no predicted class.
# Behaviour: By default it averages five models that were each fitted on four fifths of the rows, each with a
# temperature of its own: 12 of 400 predictions differ from those of the same classifier fitted on all rows. With
# ensemble=False none does.
# Instead: ensemble=False, or a FrozenEstimator and rows that were held out.
# Seen: "changed by default: True with ensemble=False: 0".
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
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

rows, labels = make_classification(400, 20, n_informative=6, n_classes=4, random_state=0, flip_y=0.2)
plain = LogisticRegression().fit(rows, labels).predict(rows)


def changed(**arguments):
    model = CalibratedClassifierCV(LogisticRegression(), method="temperature", **arguments).fit(rows, labels)
    return (model.predict(rows) != plain).sum()


print("changed by default:", changed() > 0, "with ensemble=False:", changed(ensemble=False))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "changed by default: True with ensemble=False: 0"
