#!/usr/bin/env bash
# flwr 1.42.0: the noise of local differential privacy is too little for an epsilon of 10 or more.
#
# Guess: The noise for (epsilon, delta) is calibrated for every epsilon that the module accepts.
# Behaviour: It is sensitivity * sqrt(2 ln(1.25/delta)) / epsilon at every epsilon, a formula whose proof ends at
# epsilon 1. By the exact curve of the Gaussian the noise for epsilon 10 and delta 1e-5 has a delta of 2.3e-5 and
# the one for 20 of 1.5e-3, 150 times the requested one. At small epsilons the noise is more than needed.
# Instead: compute sigma from the exact curve (for example dp_accounting.get_sigma_gaussian) and add the noise
# yourself.
# Seen: "epsilon 1: enough, epsilon 10: too little, epsilon 20: too little".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile flwr==1.42.0 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import math
from statistics import NormalDist

import numpy as np
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.supercore.differential_privacy import add_localdp_gaussian_noise_to_params

normal = NormalDist().cdf
verdicts = []
for epsilon in (1, 10, 20):
    zeros = ndarrays_to_parameters([np.zeros(1_000_000)])
    noisy = add_localdp_gaussian_noise_to_params(zeros, sensitivity=1.0, epsilon=epsilon, delta=1e-5)
    sigma = parameters_to_ndarrays(noisy)[0].std()
    tail = math.exp(epsilon) * normal(-1 / (2 * sigma) - epsilon * sigma)
    delta = normal(1 / (2 * sigma) - epsilon * sigma) - tail
    verdicts.append(f"epsilon {epsilon}: {'enough' if delta <= 1e-5 else 'too little'}")
print(", ".join(verdicts))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "epsilon 1: enough, epsilon 10: too little, epsilon 20: too little"
