#!/usr/bin/env bash
# wordfreq 3.1.1: a language without a list of words gets the words of another one.
#
# Guess: A language that the package does not list raises an error, as Thai does (LookupError).
# Behaviour: Swahili, Albanian and Maltese get English words, Galician and Basque Spanish ones, Frisian Dutch ones: the
# nearest of the known languages up to a distance of 70 (langcodes). A message of the log says it.
# Instead: look the language up in available_languages() first, or limit the distance (langcodes.closest_match).
# Seen: "sw the, sq the, gl de, fy de, th LookupError".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile wordfreq==3.1.1 langcodes==3.5.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
from wordfreq import available_languages, top_n_list

answers = []
for language in ("sw", "sq", "gl", "fy", "th"):
    assert language not in available_languages()
    try:
        answers.append(f"{language} {top_n_list(language, 1)[0]}")
    except LookupError as error:
        answers.append(f"{language} {type(error).__name__}")
print(", ".join(answers))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "sw the, sq the, gl de, fy de, th LookupError"
