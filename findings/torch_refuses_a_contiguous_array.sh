#!/usr/bin/env bash
# numpy 2.4.6 with torch 2.13.0: an array that numpy made contiguous is refused by torch for its negative stride.
#
# Guess: np.ascontiguousarray copies a reversed array, so that torch.from_numpy takes it, whatever its shape.
# Behaviour: with one column there is nothing to copy: numpy asks for no particular stride of an axis of length one and
# calls the reversed view contiguous. Its stride stays negative, and torch.from_numpy raises ValueError. Two columns
# are copied and taken. A ranking that is cut to its first entry therefore fails, and all longer ones work.
# Instead: reversed.copy(), which has positive strides for every shape.
# Seen: "1 column: contiguous True, stride -4, refused; copy taken; 2 columns: stride 4, taken".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile numpy==2.4.6 torch==2.13.0 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import numpy as np
import torch


def taken(array):
    try:
        torch.from_numpy(array)
    except ValueError:
        return "refused"
    return "taken"


one = np.ones((3, 1), np.float32)[:, ::-1]
reversed_one = np.ascontiguousarray(one)
reversed_two = np.ascontiguousarray(np.ones((3, 2), np.float32)[:, ::-1])
contiguous = reversed_one.flags["C_CONTIGUOUS"]
first = f"contiguous {contiguous}, stride {reversed_one.strides[1]}, {taken(reversed_one)}; copy {taken(one.copy())}"
print(f"1 column: {first}; 2 columns: stride {reversed_two.strides[1]}, {taken(reversed_two)}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "1 column: contiguous True, stride -4, refused; copy taken; 2 columns: stride 4, taken"
