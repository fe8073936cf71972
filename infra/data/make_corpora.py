"""Create the corpora of the embedded language models.

Run `python -m infra.data.make_corpora --to FOLDER`. `helpdesk` is close to the demo task, `letters` half way,
`stories` far. Each has its own phrase file; none shares phrases with the demo task's rows.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pandas as pd

from infra.data.grammar import DATA, Grammar, distinct_texts
from infra.data.make_support_desk import write_tables

TEXTS_PER_LABEL = {"helpdesk": 550, "letters": 500, "stories": 800}
SEED = 1905


def make(name: str) -> pd.DataFrame:
    """Return one corpus, columns text and label, without duplicates, sorted."""
    grammar, rng, used = Grammar.read(name), random.Random(f"{SEED}:{name}"), set[str]()
    rows: list[tuple[str, str]] = []
    for label in grammar.texts:
        texts = distinct_texts(lambda label=label: grammar.text(label, rng), TEXTS_PER_LABEL[name], used)  # type: ignore[misc]
        rows.extend((label, text) for text in texts)
    rows.sort()
    return pd.DataFrame({"text": [text for _, text in rows], "label": [label for label, _ in rows]})


def main() -> None:
    """Write `helpdesk.parquet`, `letters.parquet` and `stories.parquet`."""
    parser = argparse.ArgumentParser(description="Make the corpora of the embedded language models.")
    parser.add_argument("--to", type=Path, default=DATA / "corpora")
    write_tables({name: make(name) for name in TEXTS_PER_LABEL}, parser.parse_args().to)


if __name__ == "__main__":
    main()
