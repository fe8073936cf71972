#!/usr/bin/env bash
# flwr 1.42.0: the noise of differential privacy is drawn from numpy's global stream.
#
# Guess: Noise that protects records comes from the operating system, or from a generator of its own, and no seed of
# a training reaches it.
# Behaviour: np.random.seed, which a client calls to make its training repeatable, also fixes the noise: two rounds
# with the same seed add the same noise, and a person who knows the seed can subtract it. The rounding of secure
# aggregation draws from the same stream.
# Instead: never seed numpy in a process that adds this noise, or add noise of your own from os.urandom.
# Seen: "noise equal for equal seeds, for others: True False rounding: True False".
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
import numpy as np
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.quantization import quantize
from flwr.supercore.differential_privacy import add_localdp_gaussian_noise_to_params


def noise(seed):
    np.random.seed(seed)
    zeros = ndarrays_to_parameters([np.zeros(1000)])
    noisy = add_localdp_gaussian_noise_to_params(zeros, sensitivity=1.0, epsilon=1.0, delta=1e-5)
    return parameters_to_ndarrays(noisy)[0]


def rounded(seed):
    np.random.seed(seed)
    return quantize([np.linspace(-1, 1, 1000)], clipping_range=3.0, target_range=1000)[0]


noises = np.array_equal(noise(1), noise(1)), np.array_equal(noise(1), noise(2))
sums = np.array_equal(rounded(1), rounded(1)), np.array_equal(rounded(1), rounded(2))
print("noise equal for equal seeds, for others:", *noises, "rounding:", *sums)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "noise equal for equal seeds, for others: True False rounding: True False"
