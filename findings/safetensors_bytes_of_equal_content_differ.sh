#!/usr/bin/env bash
# safetensors 0.8.0: the same tensors and metadata give other bytes in another process.
#
# Guess: The format is plain (a JSON header and numbers), and nothing in it is a time or a random number, so equal
# content has an equal hash.
# Behaviour: The entries of the metadata are written in the order of a hash table whose seed is drawn for each
# process. With four entries eight processes give several files; without metadata, or with one entry, one. A digest
# of a stored model changes when it is saved again.
# Instead: hash the tensors, or keep one entry of metadata that holds JSON.
# Seen: "several files with four entries: True with one: False".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile safetensors==0.8.0 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import hashlib
import subprocess
import sys

SAVE = """
import hashlib
import numpy
from safetensors.numpy import save
print(hashlib.sha256(save({"w": numpy.ones(3)}, metadata=%r)).hexdigest())
"""


def files(metadata):
    command = [sys.executable, "-c", SAVE % metadata]
    return len({subprocess.run(command, capture_output=True, check=True).stdout for _ in range(8)})


four = {"kind": "linear", "labels": "a,b", "version": "1", "encoder": "x"}
print("several files with four entries:", files(four) > 1, "with one:", files({"all": "x"}) > 1)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "several files with four entries: True with one: False"
