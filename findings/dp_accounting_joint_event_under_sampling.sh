#!/usr/bin/env bash
# dp-accounting 0.6.0: the Renyi accountant reads two releases about one sample of records, PLDAccountant refuses
# them.
#
# Guess: PoissonSampledDpEvent over a ComposedDpEvent (a count and a sum of one draw) is an event of the library, so
# both accountants read it.
# Behaviour: The Renyi accountant gives 1.07 for two Gaussians of multiplier 2 in one draw at rate 0.1;
# PLDAccountant raises UnsupportedEventError. The event with the equal Gaussian of multiplier sqrt 2 is accepted by
# both, and PLDAccountant's epsilon is then lower by more than a quarter. Two sampled events, one for each release,
# are another mechanism with two draws: its epsilon is lower and wrong here.
# Instead: write the joint Gaussian of a draw as one event, with 1/sigma^2 added up.
# Seen: "Renyi: joint 1.071, as one Gaussian 1.071, two draws 0.594; loss: joint refused, as one Gaussian 0.769, two
# draws 0.449".
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
import math

from dp_accounting import ComposedDpEvent, GaussianDpEvent, PoissonSampledDpEvent, UnsupportedEventError
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant


def epsilon(accountant, *events):
    try:
        for event in events:
            accountant.compose(event)
    except UnsupportedEventError:
        return "refused"
    return f"{accountant.get_epsilon(1e-5):.3f}"


release = GaussianDpEvent(2.0)
joint = PoissonSampledDpEvent(0.1, ComposedDpEvent([release, release]))
equal = PoissonSampledDpEvent(0.1, GaussianDpEvent(math.sqrt(2)))
apart = PoissonSampledDpEvent(0.1, release)
lines = []
for name, kind in (("Renyi", RdpAccountant), ("loss", PLDAccountant)):
    epsilons = epsilon(kind(), joint), epsilon(kind(), equal), epsilon(kind(), apart, apart)
    lines.append(f"{name}: joint {epsilons[0]}, as one Gaussian {epsilons[1]}, two draws {epsilons[2]}")
print("; ".join(lines))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "Renyi: joint 1.071, as one Gaussian 1.071, two draws 0.594; loss: joint refused, as one Gaussian 0.769, two draws 0.449"
