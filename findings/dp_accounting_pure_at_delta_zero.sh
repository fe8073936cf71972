#!/usr/bin/env bash
# dp-accounting 0.6.0: PLDAccountant says that a Laplace release has no finite epsilon at delta 0.
#
# Guess: Laplace noise of scale 1 at sensitivity 1 is 1-DP without delta, and two such releases are 2-DP.
# Behaviour: The accountant gives infinity at delta 0, for one release already: the grid of losses puts some mass at
# infinity, and at delta 0 nothing may stay there. From a delta of about 1e-12 on the answer is right. A report
# that shows the pure epsilon of pure mechanisms shows infinity.
# Instead: add up the epsilons of pure mechanisms yourself, or use a delta of 1e-12.
# Seen: "delta 0: inf inf delta 1e-12: 1.0000 2.0000".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile dp-accounting==0.6.0 numpy==2.4.6 scipy==1.17.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import dp_accounting
from dp_accounting import pld


def epsilon(releases, delta):
    accountant = pld.PLDAccountant().compose(dp_accounting.LaplaceDpEvent(1.0), releases)
    return f"{accountant.get_epsilon(delta):.4f}"


print("delta 0:", epsilon(1, 0.0), epsilon(2, 0.0), "delta 1e-12:", epsilon(1, 1e-12), epsilon(2, 1e-12))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "delta 0: inf inf delta 1e-12: 1.0000 2.0000"
