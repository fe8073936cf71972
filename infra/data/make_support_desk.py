"""Create the demo task `support_desk`.

Run `python -m infra.data.make_support_desk --to FOLDER`. It has six classes, 120 private, 300 test and 60
public rows, and no text in two of them. The texts are our own, from `phrases/support_desk.txt`.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pandas as pd

from infra.data.grammar import DATA, Grammar, distinct_texts

LABELS = (
    "login_problem",
    "billing_question",
    "slow_internet",
    "delivery_delay",
    "cancel_contract",
    "hardware_fault",
)
ROWS = {"private": 120, "test": 300, "public": 60}
WORDS = (8, 45)
TYPO_RATE = 0.2
CARELESS_RATE = 0.12
SEED = 20260


def misspell(text: str, rng: random.Random) -> str:
    """Swap, drop or double one letter of one longer word."""
    words = text.split(" ")
    long_words = [index for index, word in enumerate(words) if word.isalpha() and word.islower() and len(word) > 4]
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


def make() -> dict[str, pd.DataFrame]:
    """Return the three tables, columns text and label, with equal classes, shuffled."""
    grammar, rng, used = Grammar.read("support_desk"), random.Random(SEED), set[str]()
    tables = {}
    for split, count in ROWS.items():
        rows: list[tuple[float, str, str]] = []
        for label in LABELS:
            texts = distinct_texts(lambda label=label: write_row(grammar, label, rng), count // len(LABELS), used)  # type: ignore[misc]
            rows.extend((rng.random(), text, label) for text in texts)
        rows.sort()
        tables[split] = pd.DataFrame({"text": [row[1] for row in rows], "label": [row[2] for row in rows]})
    return tables


def write_tables(tables: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write each table as zstd Parquet into the folder and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        table.to_parquet(path, compression="zstd", compression_level=19, index=False)
        paths.append(path)
    return paths


def main() -> None:
    """Write the tables as Parquet."""
    parser = argparse.ArgumentParser(description="Make the demo task support_desk.")
    parser.add_argument("--to", type=Path, default=DATA / "support_desk")
    write_tables(make(), parser.parse_args().to)


if __name__ == "__main__":
    main()
