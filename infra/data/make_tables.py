"""Create the tables of the shipped data: `python -m infra.data.make_tables --to FOLDER`.

- `support_desk/`: the demo task with six classes, 120 private, 300 test and 60 public rows, and no text in two of them.
- `recordings/`: completions of the demo's three language models. `terse` writes chat messages, `formal` letters and
  `story` long digressions. None shares a sequence of six words with the demo task's rows.
- `corpora/`: texts for the embedded language models. `helpdesk` is close to the demo task, `letters` half way,
  `stories` far.
- `vocabularies/`: the terms of the corpora: sequences of one or two words in at least `TEXTS` texts, by descending
  frequency. Sequences that start or end with a common English word are excluded.

The texts are our own: each file has its own phrases in `phrases/`.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from infra.data.grammar import DATA, Grammar, distinct_texts

ROWS = {"private": 120, "test": 300, "public": 60}
WORDS = (8, 45)
TYPO_RATE = 0.2
CARELESS_RATE = 0.12
SEED = 20260
TEXTS = 12
MAX_WORDS = 2
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Voice:
    """Texts of one phrase file: seed, texts per label, and the share in lower case (None: draw none)."""

    seed: int
    per_label: int
    careless: float | None = None


VOICES = {
    "recordings/terse": Voice(4711, 600, 0.5),
    "recordings/formal": Voice(4711, 600, 0.0),
    "recordings/story": Voice(4711, 600, 0.0),
    "corpora/helpdesk": Voice(1905, 550),
    "corpora/letters": Voice(1905, 500),
    "corpora/stories": Voice(1905, 800),
}


def tables() -> dict[str, pd.DataFrame]:
    """Return every table by its path below the folder of the data, without ending."""
    texts = {path: write_texts(path) for path in VOICES}
    corpora = [table for path, table in texts.items() if path.startswith("corpora/")]
    desk = {f"support_desk/{split}": table for split, table in support_desk().items()}
    return {**desk, **texts, "vocabularies/demo": vocabulary(corpora)}


def support_desk() -> dict[str, pd.DataFrame]:
    """Return the three tables of the demo task, columns text and label, with equal classes, shuffled."""
    grammar, rng, used = Grammar.read("support_desk"), random.Random(SEED), set[str]()
    splits = {}
    for split, count in ROWS.items():
        rows: list[tuple[float, str, str]] = []
        for label in grammar.texts:
            number = count // len(grammar.texts)
            texts = distinct_texts(lambda label=label: write_row(grammar, label, rng), number, used)  # type: ignore[misc]
            rows.extend((rng.random(), text, label) for text in texts)
        rows.sort()
        splits[split] = pd.DataFrame(
            {"text": [row[1] for row in rows], "label": [row[2] for row in rows]}
        )
    return splits


def misspell(text: str, rng: random.Random) -> str:
    """Swap, drop or double one letter of one longer word."""
    words = text.split(" ")
    long_words = [
        index
        for index, word in enumerate(words)
        if word.isalpha() and word.islower() and len(word) > 4
    ]
    if not long_words:
        return text
    index = long_words[int(rng.random() * len(long_words))]
    word, position = words[index], 1 + int(rng.random() * (len(words[index]) - 2))
    forms = (
        word[:position] + word[position + 1] + word[position] + word[position + 2 :],
        word[:position] + word[position + 1 :],
        word[:position] + word[position] + word[position:],
    )
    words[index] = forms[int(rng.random() * len(forms))]
    return " ".join(words)


def write_row(grammar: Grammar, label: str, rng: random.Random) -> str:
    """Return one text of a label with 8 to 45 words, some with typos or in lower case."""
    while True:
        text = grammar.text(label, rng)
        if rng.random() < TYPO_RATE:
            text = misspell(text, rng)
        if rng.random() < CARELESS_RATE:
            text = text.lower()
        if WORDS[0] <= len(text.split()) <= WORDS[1]:
            return text


def write_texts(path: str) -> pd.DataFrame:
    """Return the texts of one voice, columns text and label, without duplicates, sorted."""
    voice, name = VOICES[path], Path(path).name
    grammar, rng, used = Grammar.read(name), random.Random(f"{voice.seed}:{name}"), set[str]()

    def write(label: str) -> str:
        text = grammar.text(label, rng)
        return (
            text.lower() if voice.careless is not None and rng.random() < voice.careless else text
        )

    rows: list[tuple[str, str]] = []
    for label in grammar.texts:
        texts = distinct_texts(lambda label=label: write(label), voice.per_label, used)  # type: ignore[misc]
        rows.extend((label, text) for text in texts)
    rows.sort()
    return pd.DataFrame({"text": [text for _, text in rows], "label": [label for label, _ in rows]})


def vocabulary(corpora: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the terms of the corpora and their ranks."""
    counts = Counter(
        term for corpus in corpora for text in corpus["text"] for term in expressions(text)
    )
    terms = sorted((-count, term) for term, count in counts.items() if count >= TEXTS)
    return pd.DataFrame({"term": [term for _, term in terms], "rank": range(1, len(terms) + 1)})


def expressions(text: str) -> set[str]:
    """Return the distinct sequences of up to MAX_WORDS words that can be terms."""
    words = _WORD.findall(text.lower())
    runs = (
        words[start : start + length]
        for length in range(1, MAX_WORDS + 1)
        for start in range(len(words))
    )
    return {
        " ".join(run)
        for run in runs
        if len(run[-1]) > 2 and not {run[0], run[-1]} & ENGLISH_STOP_WORDS
    }


def main() -> None:
    """Write each table as zstd Parquet."""
    parser = argparse.ArgumentParser(description="Make the tables of the shipped data.")
    parser.add_argument("--to", type=Path, default=DATA)
    folder = parser.parse_args().to
    for name, table in tables().items():
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_parquet(path, compression="zstd", compression_level=19, index=False)


if __name__ == "__main__":
    main()
