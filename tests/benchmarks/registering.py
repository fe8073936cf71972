"""Identity of a private dataset: keyed hashes, sketch and ledger, against bare hashes and minima of the same texts."""

import hashlib
import hmac
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connectors.interfaces.rows import PrivateRef, RowsRef
from connectors.ledger.marks import SKETCH_SIZE
from flows.runtime.stores import open_ledger, open_zone
from tasks.private.data.near_copies import BANDS, LONGEST, PER_BAND
from tasks.private.data.rows import identify
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, compare

WORDS = 40


def registering(tiny: bool) -> list[Line]:
    """Register rows of 40 words with persons in a new ledger; then recognise them, as each later run does."""
    rows, rounds = (200, 1) if tiny else (100_000, 2)
    with tempfile.TemporaryDirectory() as folder:
        home, file = Path(folder) / "home", Path(folder) / "rows.parquet"
        made = table(rows)
        made.to_parquet(file)
        texts = made["text"].tolist()
        private = PrivateRef("bench", RowsRef(str(file), person="person"))

        def register() -> None:
            zone = open_zone(home)
            found = identify(zone, private, sorted(set(made["label"])), ["a public text"])
            open_ledger(home).register("bench", found.fingerprint, found.records, key=zone.key, marks=found.marks)

        def anew() -> None:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(mode=0o700)
            register()

        note = "peer: two HMACs and 32 minima per text"
        (first,) = compare(
            "registering", f"{rows} rows", anew, {"hashes": lambda: floor(texts)}, rounds, {"hashes": note}
        )
        (later,) = compare("registering", f"{rows} known rows", register, {"hashes": lambda: floor(texts)}, rounds)
        return [toward(toward(first, "P24"), "P24-seconds", first.ours_seconds), toward(later, "P24")]


def table(rows: int) -> pd.DataFrame:
    """Return rows of random words, of ten classes, three per person."""
    generator = np.random.default_rng(0)
    words = np.array([f"w{number:x}ord" for number in range(5000)])
    texts = [" ".join(line) for line in words[generator.integers(0, len(words), (rows, WORDS))]]
    labels = [f"class {number % 10}" for number in range(rows)]
    return pd.DataFrame({"text": texts, "label": labels, "person": [f"p{number // 3}" for number in range(rows)]})


def floor(texts: list[str]) -> Any:
    """Hash each text twice under a key, and take the minima of as many hashes of its characters as a sketch does."""
    key, factors = os.urandom(32), np.arange(1, 2 * BANDS * PER_BAND, 2, dtype=np.uint64)
    bands = set[bytes]()
    for text in texts:
        data = text.encode()
        hmac.new(key, data, hashlib.sha256).hexdigest(), hmac.new(key, data, hashlib.sha256).hexdigest()
        codes = np.frombuffer(data[:LONGEST], dtype=np.uint8).astype(np.uint64)
        bands.add((codes[:, None] * factors).min(axis=0).tobytes())
    return sorted(bands)[:SKETCH_SIZE]
