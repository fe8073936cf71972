"""Private rows with planted strings, and the search for them outside the private zone."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from tests.support.paths import DESK

PLANTED = ["zqxquokka7731", "Hildebrandsdottir", "IBAN-AB12-9911", "crimsonpelican"]


def planted_rows(path: Path) -> str:
    """Write private rows that each carry one of the planted strings."""
    rows = pd.read_parquet(DESK / "private.parquet")
    marks = [PLANTED[number % len(PLANTED)] for number in range(len(rows))]
    rows["whose"] = [
        f"{PLANTED[(number + 1) % len(PLANTED)]}-{number // 3}" for number in range(len(rows))
    ]
    rows["text"] = [f"{text} {mark}" for text, mark in zip(rows["text"], marks, strict=True)]
    rows.to_parquet(path)
    return str(path)


def readable(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, and what is inside it where it is compressed."""
    yield path.read_bytes()
    if path.suffix == ".parquet":
        yield pq.read_table(path).to_pandas().to_csv().encode()


def found_outside(folder: Path, words: list[str]) -> list[str]:
    result = []
    for path in folder.rglob("*"):
        if not path.is_file() or "private" in path.relative_to(folder).parts:
            continue
        for content in readable(path):
            result += [
                f"{word} in {path}" for word in words if word.lower().encode() in content.lower()
            ]
    return result
