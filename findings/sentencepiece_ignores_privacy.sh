#!/usr/bin/env bash
# sentencepiece 0.2.3: a training with differential privacy adds no noise.
#
# Guess: enable_differential_privacy with noise level 100 changes the counts of words, so the vocabulary of 20
# counts of about 20 differs from the one without.
# Behaviour: The options are accepted and ignored; a line in the log says so, which minloglevel=2 hides. The
# vocabulary and all scores are those of a training without them, at every noise level and clipping threshold.
# Instead: count words under differential privacy yourself and train on words that were released.
# Seen: "equal with and without: True".
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

words = "router invoice phone page login password slow internet evening nobody answers bill euro cancel".split()
with open("counts.tsv", "w", encoding="utf-8") as file:
    file.writelines(f"{word}\t{20 + number}\n" for number, word in enumerate(words))


def pieces(**options):
    sentencepiece.SentencePieceTrainer.train(
        input="counts.tsv", input_format="tsv", model_prefix="m", vocab_size=34, minloglevel=2, **options
    )
    model = sentencepiece.SentencePieceProcessor(model_file="m.model")
    return [(model.id_to_piece(number), model.get_score(number)) for number in range(34)]


private = {"enable_differential_privacy": True, "differential_privacy_noise_level": 100.0}
private |= {"differential_privacy_clipping_threshold": 30}
print("equal with and without:", pieces() == pieces(**private))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "equal with and without: True"
