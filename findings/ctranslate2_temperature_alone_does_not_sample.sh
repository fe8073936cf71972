#!/usr/bin/env bash
# ctranslate2 4.8.5: generate_batch with sampling_temperature=1 writes the same text every time.
#
# Guess: A temperature above 0 samples.
# Behaviour: sampling_topk is 1 by default, so the likeliest token is taken at every temperature. Ten texts of one
# prompt are one text. With sampling_topk=0 (all tokens) they differ.
# Instead: sampling_topk=0 together with the temperature.
# Seen: "different texts of ten: one by default True several with sampling_topk=0 True".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile ctranslate2==4.8.5 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import ctranslate2
import numpy
from ctranslate2.specs import TransformerDecoderModelSpec

WORDS, WIDTH = 32, 32
draw = numpy.random.default_rng(0)


def write(folder):
    """Write a small decoder of random weights."""
    spec = TransformerDecoderModelSpec.from_config(2, 4, pre_norm=True)
    linear = [spec.decoder.projection]
    shapes = [(WORDS, WIDTH)]
    norms = [spec.decoder.layer_norm]
    for layer in spec.decoder.layer:
        attention = layer.self_attention
        linear += [*attention.linear, layer.ffn.linear_0, layer.ffn.linear_1]
        shapes += [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (2 * WIDTH, WIDTH), (WIDTH, 2 * WIDTH)]
        norms += [attention.layer_norm, layer.ffn.layer_norm]
    for part, shape in zip(linear, shapes, strict=True):
        part.weight = draw.normal(scale=0.4, size=shape).astype(numpy.float32)
        part.bias = numpy.zeros(shape[0], numpy.float32)
    for norm in norms:
        norm.gamma = numpy.ones(WIDTH, numpy.float32)
        norm.beta = numpy.zeros(WIDTH, numpy.float32)
    spec.decoder.embeddings.weight = draw.normal(size=(WORDS, WIDTH)).astype(numpy.float32)
    spec.decoder.scale_embeddings = False
    spec.decoder.position_encodings.encodings = draw.normal(size=(64, WIDTH)).astype(numpy.float32)
    spec.register_vocabulary(["<unk>", "<s>", "</s>", *(f"t{number}" for number in range(WORDS - 3))])
    spec.validate()
    spec.optimize()
    spec.save(folder)


write(".")
model = ctranslate2.Generator(".")
prompt = ["<s>", "t1", "t2"]


def texts(**options):
    results = [model.generate_batch([prompt], max_length=12, sampling_temperature=1.0, **options)[0] for _ in range(10)]
    return len({tuple(result.sequences[0]) for result in results})


print("different texts of ten: one by default", texts() == 1, "several with sampling_topk=0", texts(sampling_topk=0) > 1)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "different texts of ten: one by default True several with sampling_topk=0 True"
