"""Artifacts against plain pandas files and against memory: what manifests, hashes and fsync cost."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connectors.artifacts import hash_cache
from connectors.artifacts.store import Artifacts
from connectors.interfaces.artifacts import StepKey
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, compare

KEY = StepKey("generate", 1, {"seed": 0}, {})
SAFE = "ours adds fsync, sha256 and a manifest"


def artifacts(tiny: bool) -> list[Line]:
    """A table of texts, and matrices of embeddings, which pandas keeps as a column of lists."""
    with tempfile.TemporaryDirectory() as folder:
        store = Artifacts(Path(folder) / "home")
        return [*_small(store, Path(folder), tiny), *_large(store, Path(folder), tiny)]


def _small(store: Artifacts, folder: Path, tiny: bool) -> list[Line]:
    rows, rounds = (20, 1) if tiny else (6_000, 7)
    texts = [
        f"{number} is the number of this text, which is about as long as a short review." for number in range(rows)
    ]
    table = pd.DataFrame({"sample_id": np.arange(rows), "text": texts, "label": ["a", "b"] * (rows // 2)})
    matrix = np.random.default_rng(0).normal(size=(rows, 384)).astype(np.float32)
    lists = pd.DataFrame({"vector": list(matrix)})
    plain, listed = folder / "a.parquet", folder / "b.parquet"
    kept = store.write_table("runs/a/table.parquet", table, KEY)
    vectors = store.write_matrix("runs/a/vectors.parquet", matrix, KEY)
    cases = (
        ("write table", lambda: store.write_table("runs/a/table.parquet", table, KEY),
         lambda: table.to_parquet(plain, compression="zstd"), SAFE),
        ("first read of a table", lambda: anew(lambda: store.read_table(kept)), lambda: pd.read_parquet(plain),
         "ours checks the sha256"),
        ("later read of a table", lambda: store.read_table(kept), lambda: pd.read_parquet(plain),
         "ours looks whether the file changed"),
        ("write matrix", lambda: store.write_matrix("runs/a/vectors.parquet", matrix, KEY),
         lambda: lists.to_parquet(listed), SAFE),
        ("first read of a matrix", lambda: anew(lambda: store.read_matrix(vectors)),
         lambda: np.stack(pd.read_parquet(listed)["vector"].tolist()), "ours checks the sha256"),
    )  # fmt: skip
    lines = []
    for case, ours, peer, note in cases:
        lines += compare("artifacts", f"{case}, {rows} rows", ours, {"pandas": peer}, rounds, {"pandas": note})
    return lines


def _large(store: Artifacts, folder: Path, tiny: bool) -> list[Line]:
    """Write and read many vectors: against float16 numbers in lists, and against a copy of the bytes in memory."""
    rows, rounds = (100, 1) if tiny else (100_000, 5)
    matrix = np.random.default_rng(0).normal(0, 0.05, size=(rows, 384)).astype(np.float32)
    ref = store.write_matrix("runs/a/many.parquet", matrix, KEY)
    halves = _halves(matrix)
    written = compare(
        "artifacts", f"write {rows} vectors", lambda: store.write_matrix("runs/a/many.parquet", matrix, KEY),
        {"float16 lists": lambda: _write(halves, folder / "c.parquet")}, 1 if tiny else 3, {"float16 lists": SAFE},
    )  # fmt: skip
    copied = {"copy in memory": matrix.copy}
    later = compare("artifacts", f"later read, {rows} vectors", lambda: store.read_matrix(ref), copied, rounds)
    first = compare("artifacts", f"first read, {rows} vectors", lambda: anew(lambda: store.read_matrix(ref)), copied,
                    rounds, {"copy in memory": "ours checks the sha256"})  # fmt: skip
    return [
        *(toward(one, "P19-write", 1 / one.ratio) for one in written),
        *(toward(one, "P19-read", 1 / one.ratio) for one in later),
        *first,
    ]


def anew(read: Any) -> Any:
    """Read as a process does that has not seen the file."""
    hash_cache.HASHES.forget()
    hash_cache.FRAMES.forget()
    return read()


def _halves(matrix: Any) -> Any:
    import pyarrow as pa

    flat = pa.array(matrix.astype(np.float16).ravel())
    return pa.table({"vector": pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])})


def _write(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")
