#!/usr/bin/env bash
# model2vec 0.10.0: max_length=512 cuts a text of words of ten letters after 233 tokens.
#
# Guess: A text is cut after 512 tokens.
# Behaviour: It is cut first after 512 times the median length of the vocabulary's tokens in characters, then after
# 512 tokens: 427 tokens of a word of five letters, 233 of one of ten. Texts of long words, such as German or
# technical ones, lose half of the tokens that fit.
# Instead: max_length=None and texts that you cut yourself.
# Seen: "every 427, connection 233".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile \
  model2vec==0.10.0 numpy==2.4.6 tokenizers==0.23.3 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import numpy
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

words = ["[UNK]", "[PAD]", *"the router loses its connection every evening and nobody answers".split()]
numbers = {word: number for number, word in enumerate(words)}
tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = StaticModel(numpy.eye(len(words), dtype=numpy.float32), tokenizer, normalize=False)


def tokens_read(word):
    text = " ".join(["the"] + [word] * 1000)
    return round(1 / model.encode([text], max_length=512)[0][numbers["the"]])


print(", ".join(f"{word} {tokens_read(word)}" for word in ("every", "connection")))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "every 427, connection 233"
