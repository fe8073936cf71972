#!/usr/bin/env bash
# statsmodels 0.15.0: a missing p-value makes all of Benjamini-Hochberg missing, and counts as a test for Holm.
#
# Guess: multipletests leaves NaN out of the family, or refuses it, whatever the method.
# Behaviour: method="fdr_bh" returns NaN for all p-values if one of them is NaN, and rejects nothing. method="holm"
# adjusts the others for a family that contains the missing one: two p-values and a NaN are three tests. Neither gives
# a message. A table of comparisons of which one was not measured shows no result at all, or too few.
# Instead: adjust p[~numpy.isnan(p)], or put 1 in the place of NaN where the missing test belongs to the family.
# Seen: "bh nan nan nan, holm 0.030 nan 0.040, holm without it 0.020 0.020".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import math

from statsmodels.stats.multitest import multipletests


def adjusted(p_values, method):
    return " ".join("nan" if math.isnan(p) else f"{p:.3f}" for p in multipletests(p_values, method=method)[1])


measured = [0.01, math.nan, 0.02]
print(f"bh {adjusted(measured, 'fdr_bh')}, holm {adjusted(measured, 'holm')}, holm without it {adjusted([0.01, 0.02], 'holm')}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "bh nan nan nan, holm 0.030 nan 0.040, holm without it 0.020 0.020"
