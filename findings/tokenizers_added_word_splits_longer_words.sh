#!/usr/bin/env bash
# tokenizers 0.23.3: a word that was added to a vocabulary is also found inside of longer words.
#
# Guess: add_tokens(["low"]) adds a word; "lower", which the vocabulary has, stays one token.
# Behaviour: An added text is cut out wherever it occurs, before the vocabulary is looked at: "lower" becomes "low"
# and an unknown rest, also where the whole word is known. Terms of a domain that are added to a small model break
# the longer words around them.
# Instead: AddedToken("low", single_word=True).
# Seen: "before ['lower'] added ['low', '[UNK]'] single word ['lower']".
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
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers


def tokens(added=None):
    tokenizer = Tokenizer(models.WordLevel({"low": 0, "lower": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if added:
        tokenizer.add_tokens([added])
    return tokenizer.encode("lower").tokens


print("before", tokens(), "added", tokens("low"), "single word", tokens(AddedToken("low", single_word=True)))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "before ['lower'] added ['low', '[UNK]'] single word ['lower']"
