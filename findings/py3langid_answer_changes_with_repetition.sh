#!/usr/bin/env bash
# py3langid 0.4.0: a word and the same word twice have different languages.
#
# Guess: A classifier by counts of byte sequences gives a text and its repetition the same language: all counts
# double.
# Behaviour: "Hello" is Breton and "Hello Hello" Finnish, "Danke" is Danish and "Danke Danke" Hausa. New sequences
# come into being where the two words meet. Other short phrases change as well.
# Instead: limit the languages (set_languages), and do not classify fewer than five words.
# Seen: "Hello br, twice fi, Danke da, twice ha".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile py3langid==0.4.0 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import py3langid

answers = {word: [py3langid.classify(" ".join([word] * times))[0] for times in (1, 2)] for word in ("Hello", "Danke")}
print(", ".join(f"{word} {once}, twice {twice}" for word, (once, twice) in answers.items()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "Hello br, twice fi, Danke da, twice ha"
