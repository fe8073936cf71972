#!/usr/bin/env bash
# tokenizers 0.23.3: WordPiece makes one unknown token of a word with more than 100 letters.
#
# Guess: A word that is not in the vocabulary is cut into pieces, however long it is, if all its letters are in the
# vocabulary.
# Behaviour: Up to 100 letters give 100 pieces, 101 letters give one [UNK]. A pasted address, a list without blanks
# or a sentence of a script without blanks disappears from the input of an encoder, and its vector says nothing of
# it.
# Instead: raise max_input_chars_per_word, or put blanks into long words first.
# Seen: "100 letters: 100 tokens, 101 letters: ['[UNK]']".
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
from tokenizers import Tokenizer, models, pre_tokenizers

vocabulary = {"[UNK]": 0, "x": 1, "##x": 2}
tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokens = {length: tokenizer.encode("x" * length).tokens for length in (100, 101)}
print(f"100 letters: {len(tokens[100])} tokens, 101 letters: {tokens[101]}")
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "100 letters: 100 tokens, 101 letters: ['[UNK]']"
