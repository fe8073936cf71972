#!/usr/bin/env bash
# tokenizers 0.23.3: two trainings of WordPiece on the same lines give other numbers to the tokens.
#
# Guess: Training has no seed and draws nothing, so the same lines give the same vocabulary, as they do for BPE.
# Behaviour: Of five trainings in one process, rarely two give the same number to each token, and sometimes the sets
# of tokens differ as well. Everything that is stored by token number, such as counts or trained weights, belongs to
# one training alone. BPE on the same lines is the same five times.
# Instead: train once and keep the file, or sort the vocabulary and renumber it.
# Seen: "WordPiece differs: True BPE differs: False".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile tokenizers==0.23.3 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

draw = random.Random(1)
words = ["".join(draw.choice("abcdefg") for _ in range(draw.randint(2, 6))) for _ in range(300)]
lines = [" ".join(draw.choice(words) for _ in range(8)) for _ in range(400)]


def vocabularies(model, trainer):
    for _ in range(5):
        tokenizer = Tokenizer(model())
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.train_from_iterator(lines, trainer(vocab_size=200, show_progress=False))
        yield tuple(sorted(tokenizer.get_vocab().items()))


wordpiece = set(vocabularies(models.WordPiece, trainers.WordPieceTrainer))
bpe = set(vocabularies(models.BPE, trainers.BpeTrainer))
print("WordPiece differs:", len(wordpiece) > 1, "BPE differs:", len(bpe) > 1)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "WordPiece differs: True BPE differs: False"
