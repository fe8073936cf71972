#!/usr/bin/env bash
# hypothesis 6.170.15: noise of random or numpy.random is the same number in each of fifty examples.
#
# Guess: hypothesis chooses the arguments; what the test itself draws is fresh in each example.
# Behaviour: The global streams of random and numpy are set to the same seed before every example. A test of a noisy
# release that draws from them sees one noise fifty times, so it holds or fails as a whole.
# numpy.random.default_rng() and os.urandom are fresh.
# Instead: pass randomness as an argument (strategies.randoms), or use a generator of your own.
# Seen: "random 1, numpy 1, default_rng 50".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile hypothesis==6.170.15 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import random

import numpy
from hypothesis import given, settings, strategies

seen = {"random": set(), "numpy": set(), "default_rng": set()}


@settings(max_examples=50, deadline=None, database=None)
@given(strategies.integers())
def check(number):
    seen["random"].add(random.gauss(0, 1))
    seen["numpy"].add(float(numpy.random.normal()))
    seen["default_rng"].add(float(numpy.random.default_rng().normal()))


check()
print(", ".join(f"{name} {len(values)}" for name, values in seen.items()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "random 1, numpy 1, default_rng 50"
