"""Create the demo's public vocabulary from the corpora of the embedded models.

`python -m infra.data.make_vocabulary --to FOLDER` writes demo.parquet. Terms are sequences of one or two words in
at least TEXTS texts of the three corpora, by descending frequency. Sequences that start or end with a common English
word are excluded.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from infra.data.grammar import DATA
from infra.data.make_support_desk import write_tables

CORPORA = ("helpdesk", "letters", "stories")
TEXTS = 12
LONGEST = 2
_WORD = re.compile(r"[a-z]+")


def make() -> pd.DataFrame:
    """Return the terms and their ranks."""
    counts: Counter[str] = Counter()
    for corpus in CORPORA:
        for text in pd.read_parquet(DATA / "corpora" / f"{corpus}.parquet")["text"]:
            counts.update(expressions(text))
    terms = sorted((-count, term) for term, count in counts.items() if count >= TEXTS)
    return pd.DataFrame({"term": [term for _, term in terms], "rank": range(1, len(terms) + 1)})


def expressions(text: str) -> set[str]:
    """Return the distinct sequences of up to LONGEST words that can be terms."""
    words = _WORD.findall(text.lower())
    runs = (words[start : start + length] for length in range(1, LONGEST + 1) for start in range(len(words)))
    return {" ".join(run) for run in runs if len(run[-1]) > 2 and not {run[0], run[-1]} & ENGLISH_STOP_WORDS}


def main() -> None:
    """Write `demo.parquet`."""
    parser = argparse.ArgumentParser(description="Make the demo's public vocabulary.")
    parser.add_argument("--to", type=Path, default=DATA / "vocabularies")
    write_tables({"demo": make()}, parser.parse_args().to)


if __name__ == "__main__":
    main()
