#!/usr/bin/env bash
# hypothesis 6.170.15: a test with max_examples=100 over two values runs twice.
#
# Guess: max_examples=100 runs a test about 100 times; where a strategy has few values, they repeat.
# Behaviour: A strategy whose values are all seen ends the test. A statistical test that draws noise of its own and
# takes only a yes or no from hypothesis looks at two draws, not at a hundred, and passes with a rare failure in it.
# Instead: draw the repetitions inside of the test, or parametrize.
# Seen: "runs 2".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile hypothesis==6.170.15 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import os

from hypothesis import given, settings, strategies

draws = []


@settings(max_examples=100, deadline=None, database=None)
@given(strategies.booleans())
def check(is_clipped):
    draws.append(os.urandom(8))


check()
print("runs", len(draws))
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "runs 2"
