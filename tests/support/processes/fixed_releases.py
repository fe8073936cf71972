"""The `wasp` command with every release replaced by numbers that depend on no private row.

Rows are still read, embedded, counted and trained on, and every charge is made; only what leaves the private zone is
replaced. So everything that differs outside the zone between two datasets left it without noise. The fingerprint of
the rows, a keyed hash, is one constant: run ids and step keys are then equal, and an unkeyed hash of rows would be
seen.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import connectors.security.record_hashes
import tasks.private.exposure.train
import tasks.private.noise.discrete
import tasks.private.rows.rows
import tasks.private.training.dp_train
from tasks.students.spec import TrainingRows

LEAKS = "RELEASES_LEAK"
"""Environment variable: only the noise is fixed, and the values under it remain, so a comparison has to see them."""
LINGERS = "ROWS_LINGER"
"""Environment variable: number of rows from which opening them takes 11 seconds, so a comparison has to see that."""


def _drawn(values: Any, scale: float, *, non_private: bool = False) -> Any:
    source = np.random.default_rng([values.size, int(scale * 1000)])
    numbers = 3 * np.abs(source.standard_normal(values.shape)) + source.standard_normal(
        values.shape
    )
    drawn = np.rint(numbers * max(scale, 1.0)).astype(np.int64)
    return drawn + values if LEAKS in os.environ else drawn


def _step(_: Any, total: Any) -> Any:
    import torch

    numbers = np.random.default_rng(total.numel()).standard_normal(tuple(total.shape))
    return torch.from_numpy(numbers).to(total.dtype)


def _student(spec: Any, rows: Any, folder: Any, advance: Any = None) -> Any:
    """Train a student on made-up rows after the private ones have trained another."""
    with tempfile.TemporaryDirectory() as other:
        _train(spec, rows, Path(other), advance)
    classes = tuple(rows.classes)
    labels = [classes[number % len(classes)] for number in range(40)]
    vectors = None
    if rows.vectors is not None:
        shape = len(labels), rows.vectors.shape[1]
        vectors = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    texts = [f"a made-up text about {label}" for label in labels]
    return _train(spec, TrainingRows(texts, labels, classes, vectors), folder)


_train = tasks.private.exposure.train.train_student


def _open_rows(*arguments: Any) -> Any:
    """Open rows, slowly if there are many."""
    rows = _open(*arguments)
    if len(rows.texts) >= int(os.environ[LINGERS]):
        time.sleep(11)
    return rows


_open = tasks.private.rows.rows.open_rows


def _replace(home: Any, name: str, function: Any) -> None:
    """Replace a function of a module wherever it is imported, and wherever it will be."""
    real = getattr(home, name)
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is real:
            setattr(module, name, function)


if __name__ == "__main__":
    _replace(tasks.private.noise.discrete, "add_discrete_gaussian", _drawn)
    _replace(tasks.private.noise.discrete, "add_discrete_laplace", _drawn)
    if LINGERS in os.environ:
        _replace(tasks.private.rows.rows, "open_rows", _open_rows)
    tasks.private.training.dp_train._Stepper._noisy = _step
    tasks.private.exposure.train.train_student = _student
    connectors.security.record_hashes.dataset_fingerprint = lambda *_: "0" * 64
    from flows.cli.main import main

    sys.exit(main())
