#!/usr/bin/env bash
# ctranslate2 4.8.5: the score of a generated text is the mean log probability of its tokens.
#
# Guess: return_scores gives the log probability of the text, the sum over its tokens.
# Behaviour: length_penalty is 1 by default and divides the sum by the number of tokens, also where one text is
# drawn and no beam is compared. The likelihood of a text of eight tokens is off by a factor of eight in its
# logarithm. With length_penalty=0 the score is the sum.
# Instead: length_penalty=0, or score_batch, which returns a number for each token.
# Seen: "sum over score: by default 8 with length_penalty=0 1".
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
options = {"max_length": 8, "min_length": 8, "return_scores": True, "include_prompt_in_result": False}


def compared(**penalty):
    result = model.generate_batch([prompt], **options, **penalty)[0]
    tokens = model.score_batch([prompt + result.sequences[0]])[0].log_probs[len(prompt) - 1 :]
    # Generation never writes the unknown token or an early end, so its probabilities are slightly higher.
    return f"{sum(tokens) / result.scores[0]:.0f}"


print("sum over score: by default", compared(), "with length_penalty=0", compared(length_penalty=0))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "sum over score: by default 8 with length_penalty=0 1"
