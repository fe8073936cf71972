#!/usr/bin/env bash
# autodp 0.2.3.1: four Gaussians of its Composition cost more than the one Gaussian that they are together.
#
# Guess: GaussianMechanism knows its exact trade-off curve, and Gaussians compose into a Gaussian, so Composition
# keeps the exact value.
# Behaviour: Composition continues with Renyi differential privacy alone. Four releases of sigma 2 are one of sigma
# 1, whose exact epsilon at delta 1e-5 is 4.3772; composed they are 4.7284, 8 per cent more.
# Instead: compose Gaussians by adding 1/sigma^2, and make one mechanism of the sum.
# Seen: "one of sigma 1: 4.3772, four of sigma 2: 4.7284".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile autodp==0.2.3.1 numpy==2.4.6 scipy==1.17.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
from autodp.mechanism_zoo import GaussianMechanism
from autodp.transformer_zoo import Composition

single = GaussianMechanism(sigma=1.0).get_approxDP(1e-5)
four = Composition()([GaussianMechanism(sigma=2.0)], [4]).get_approxDP(1e-5)
print(f"one of sigma 1: {single:.4f}, four of sigma 2: {four:.4f}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "one of sigma 1: 4.3772, four of sigma 2: 4.7284"
