"""Artifacts against plain pandas files: what manifests, hashes and fsync cost."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from connectors.artifacts import Artifacts
from connectors.base import StepKey
from tests.benchmarks.race import Line, compare

KEY = StepKey("generate", 1, {"seed": 0}, {})
SAFE = "ours adds fsync, sha256 and a manifest"


def artifacts(tiny: bool) -> list[Line]:
    """A table of texts, and a matrix of embeddings, which pandas keeps as a column of lists."""
    rows, rounds = (20, 1) if tiny else (6_000, 7)
    texts = [
        f"{number} is the number of this text, which is about as long as a short review." for number in range(rows)
    ]
    table = pd.DataFrame({"sample_id": np.arange(rows), "text": texts, "label": ["a", "b"] * (rows // 2)})
    matrix = np.random.default_rng(0).normal(size=(rows, 384)).astype(np.float32)
    lists = pd.DataFrame({"vector": list(matrix)})
    with tempfile.TemporaryDirectory() as folder:
        store, plain, listed = Artifacts(Path(folder) / "home"), Path(folder) / "a.parquet", Path(folder) / "b.parquet"
        kept = store.write_table("runs/a/table.parquet", table, KEY)
        vectors = store.write_matrix("runs/a/vectors.parquet", matrix, KEY)
        cases = (
            ("write table", lambda: store.write_table("runs/a/table.parquet", table, KEY),
             lambda: table.to_parquet(plain, compression="zstd"), SAFE),
            ("read table", lambda: store.read_table(kept), lambda: pd.read_parquet(plain), "ours checks the sha256"),
            ("write matrix", lambda: store.write_matrix("runs/a/vectors.parquet", matrix, KEY),
             lambda: lists.to_parquet(listed), SAFE),
            ("read matrix", lambda: store.read_matrix(vectors),
             lambda: np.stack(pd.read_parquet(listed)["vector"].tolist()), "ours checks the sha256"),
        )  # fmt: skip
        lines = []
        for case, ours, peer, note in cases:
            lines += compare("artifacts", f"{case}, {rows} rows", ours, {"pandas": peer}, rounds, {"pandas": note})
    return lines
