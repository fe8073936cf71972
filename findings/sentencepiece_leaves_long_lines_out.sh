#!/usr/bin/env bash
# sentencepiece 0.2.3: a line of more than 4,192 bytes is not used in training.
#
# Guess: A line of the corpus is a text of any length; a long one is cut.
# Behaviour: It is left out, and the number of skipped lines is in the log alone. Letters and words that occur only
# in long records are missing from the vocabulary. With one record a line, the longest records of a corpus do not
# count.
# Instead: split records into lines, or raise max_sentence_length.
# Seen: "letters of the long line: False with a higher limit: True".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile sentencepiece==0.2.3 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import sentencepiece

with open("lines.txt", "w", encoding="utf-8") as file:
    file.write("the router loses the connection\n" * 50 + "zebra quagga " * 400 + "\n")


def letters(**options):
    sentencepiece.SentencePieceTrainer.train(
        input="lines.txt", model_prefix="m", vocab_size=26, hard_vocab_limit=False, minloglevel=2, **options
    )
    model = sentencepiece.SentencePieceProcessor(model_file="m.model")
    pieces = "".join(model.id_to_piece(number) for number in range(model.get_piece_size()))
    return "z" in pieces and "q" in pieces


print("letters of the long line:", letters(), "with a higher limit:", letters(max_sentence_length=10_000))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "letters of the long line: False with a higher limit: True"
