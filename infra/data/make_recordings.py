"""Create the recorded completions of the demo's three language models.

Run `python -m infra.data.make_recordings --to FOLDER`. Each voice has its own phrase file: `terse` chat messages,
`formal` letters and `story`, long digressions. None shares a sequence of six words with the demo task's rows.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pandas as pd

from infra.data.grammar import DATA, Grammar, distinct_texts
from infra.data.make_support_desk import LABELS, write_tables

CARELESS_RATE = {"terse": 0.5, "formal": 0.0, "story": 0.0}
"""Share of texts in lower case, by voice."""
TEXTS_PER_LABEL = 600
SEED = 4711


def write_message(grammar: Grammar, label: str, careless: float, rng: random.Random) -> str:
    """Return one message of a label, in lower case with probability `careless`."""
    text = grammar.text(label, rng)
    return text.lower() if rng.random() < careless else text


def make(voice: str) -> pd.DataFrame:
    """Return the completions of one voice, columns text and label, without duplicates, sorted."""
    grammar, rng, used = Grammar.read(voice), random.Random(f"{SEED}:{voice}"), set[str]()
    rows: list[tuple[str, str]] = []
    for label in LABELS:
        texts = distinct_texts(
            lambda label=label: write_message(grammar, label, CARELESS_RATE[voice], rng),  # type: ignore[misc]
            TEXTS_PER_LABEL,
            used,
        )
        rows.extend((label, text) for text in texts)
    rows.sort()
    return pd.DataFrame({"text": [text for _, text in rows], "label": [label for label, _ in rows]})


def main() -> None:
    """Write `terse.parquet`, `formal.parquet` and `story.parquet`."""
    parser = argparse.ArgumentParser(description="Make the recorded completions of the demo.")
    parser.add_argument("--to", type=Path, default=DATA / "recordings")
    write_tables({voice: make(voice) for voice in CARELESS_RATE}, parser.parse_args().to)


if __name__ == "__main__":
    main()
