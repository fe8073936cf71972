#!/usr/bin/env bash
# rouge-score 0.1.2: letters beyond a to z are ignored, so that two different words are equal and equal ones are not.
#
# Guess: ROUGE-L of a text and itself is 1 in every language, and below 1 for two different words.
# Behaviour: The default tokenizer keeps a to z and 0 to 9. "Größe" and "Gräße" are both the tokens gr and e, and their
# score is 1. A Russian text and itself have no tokens, and their score is 0, without a message. A search for copies by
# ROUGE finds none in Russian, and reports different German words as copies.
# Instead: RougeScorer(..., tokenizer=...) with an object whose method tokenize splits the language.
# Seen: "German 1.0, Russian 0".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile rouge-score==0.1.2 nltk==3.10.0 numpy==2.4.6 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
from rouge_score.rouge_scorer import RougeScorer

scorer = RougeScorer(["rougeL"])
pairs = {"German": ("Größe", "Gräße"), "Russian": ("новая карта", "новая карта")}
scores = {name: scorer.score(*pair)["rougeL"].fmeasure for name, pair in pairs.items()}
print(", ".join(f"{name} {score}" for name, score in scores.items()))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "German 1.0, Russian 0"
