#!/usr/bin/env bash
# sentence-transformers 6.2.0: the int8 vector of a text depends on the other texts of the call.
#
# Guess: precision="int8" rounds each number of a vector to fixed steps, so a text has one vector.
# Behaviour: The steps are those of the smallest and largest value in each dimension of the same call. The first of 200
# vectors, which itself is the same, becomes other numbers when the 199 others are halved; from 100 vectors on without a
# warning. Vectors of two calls are not comparable, and under differential privacy one more record changes the vectors
# of all.
# Instead: quantize_embeddings(..., ranges=...) with ranges of public texts, for all calls.
# Seen: "own ranges: equal False, given ranges: equal True".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile sentence-transformers==6.2.0 torch==2.13.0 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import numpy as np
from sentence_transformers.util import quantize_embeddings

vectors = np.random.default_rng(0).normal(size=(200, 4)).astype("float32")
others = vectors * 0.5
others[0] = vectors[0]


def is_equal(**options):
    first, second = (quantize_embeddings(rows, precision="int8", **options)[0] for rows in (vectors, others))
    return bool((first == second).all())


ranges = np.array([[-4.0] * 4, [4.0] * 4], dtype="float32")
print(f"own ranges: equal {is_equal()}, given ranges: equal {is_equal(ranges=ranges)}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "own ranges: equal False, given ranges: equal True"
