#!/usr/bin/env bash
# tokenizers 0.23.3: min_frequency does not keep a letter that occurs once out of the vocabulary.
#
# Guess: min_frequency=5 leaves out everything that occurs less often, so a tokenizer trained on private texts shows
# nothing of a single record.
# Behaviour: The limit holds for merges. Every letter of the texts is in the vocabulary first: one name with a rare
# letter in one record can be seen in tokenizer.json of BPE and WordPiece. WordLevel obeys the limit.
# Instead: give initial_alphabet and limit_alphabet, train on public texts, or use bytes (ByteLevel) with their
# whole alphabet.
# Seen: "BPE True, WordPiece True, WordLevel False".
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
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

lines = ["the router is broken again"] * 20 + ["Żofia"]
kinds = {
    "BPE": (models.BPE, trainers.BpeTrainer),
    "WordPiece": (models.WordPiece, trainers.WordPieceTrainer),
    "WordLevel": (models.WordLevel, trainers.WordLevelTrainer),
}
shown = {}
for name, (model, trainer) in kinds.items():
    tokenizer = Tokenizer(model())
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(lines, trainer(min_frequency=5, show_progress=False))
    shown[name] = any("Ż" in token for token in tokenizer.get_vocab())
print(", ".join(f"{name} {value}" for name, value in shown.items()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "BPE True, WordPiece True, WordLevel False"
