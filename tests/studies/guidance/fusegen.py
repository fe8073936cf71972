"""The floor that FuseGen is: students of each model's texts choose the examples, and no private row is opened.

Judging, candidates and choice are the product's (tasks/steps/fusegen.py), with linear students as where models are
embedded. What a pool cannot carry over: prompts that show the examples of all classes at once (here each class is
shown its own, `examples_of: class`), and texts written afterwards, of which the examples are the only trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from flows.methods.fusegen.config import FuseGenMethod
from flows.methods.fusegen.run import boosted, fusing
from tasks.steps.fusegen import JudgeJob, choose_examples, pool_candidates, score_texts
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import train_student

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.progress import Advance
    from tasks.steps.density import Texts
    from tests.studies.guidance.corpora import Corpus

METHOD = FuseGenMethod(judge="linear", examples_of="class")
"""All else as published."""


def fused(texts: Texts, corpus: Corpus, examples: int, iteration: int, seed: int) -> pd.DataFrame:
    """Return the examples of each class after a round, all of them good."""
    spec = boosted(StudentSpec("linear", seed=seed), METHOD.boosts)
    jobs = [JudgeJob(plm, iteration, (), spec, corpus.labels) for plm in corpus.plms]
    tables = [score_texts(texts.samples, texts.vectors, job, _unseen) for job in jobs]
    job = fusing(METHOD.model_copy(update={"examples": examples}), iteration, corpus.labels)
    return choose_examples(pool_candidates(texts.samples, texts.vectors, tables, job), job)


def self_boosted(texts: Texts, corpus: Corpus, seed: int) -> NDArray[np.float64]:
    """Return what every text weighs after a student has lowered those that it goes on mistaking."""
    spec = boosted(StudentSpec("linear", seed=seed), METHOD.boosts)
    rows = TrainingRows(texts.samples["text"].tolist(), texts.labels.tolist(), corpus.labels, texts.vectors)
    with TemporaryDirectory() as folder:
        weights = train_student(spec, rows, Path(folder)).weights
    assert weights is not None
    return weights


@contextmanager
def _unseen(what: str, total: int) -> Iterator[Advance]:
    """Show no progress: a round takes a second."""
    yield lambda units: None
