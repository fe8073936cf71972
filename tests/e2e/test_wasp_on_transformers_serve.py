"""Whole runs with a language model trained here and now: behind a real server, and in the run's own process."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.models.trained import CORPUS
from tests.support.models.trained import trained_model as trained_model
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.transformers import transformers_server

pytest.importorskip("torch")
pytest.importorskip("openai")
pytest.importorskip("uvicorn")

pytestmark = pytest.mark.slow

SAMPLES = 24
SHORT = {"method": {"iterations": 2, "samples": SAMPLES}}
_WORD = re.compile(r"[a-z]+")


@pytest.fixture(scope="module")
def served(trained_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with transformers_server(trained_model, tmp_path_factory.mktemp("serve")) as url:
        yield url


def shortfall(pipeline: Pipeline, run_id: str) -> int:
    """Return how many texts the run itself says are missing in the end: each iteration makes up for the one before."""
    last = pipeline.home / "runs" / run_id / "iteration=1/plm=clerk/_samples.parquet.json"
    return sum(json.loads(last.read_text())["info"]["shortfall"].values())


def of_their_class(rows: pd.DataFrame, corpus: pd.DataFrame) -> float:
    """Return the share of texts whose class a judge names that knows the corpus alone."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    judge = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(corpus["text"], corpus["label"])
    return float((judge.predict(rows["text"]) == rows["label"]).mean())


def check(pipeline: Pipeline, summary: dict[str, Any]) -> None:
    """A whole run, votes included, whose texts the model wrote in the words that it was taught."""
    assert summary["state"] == "done"
    assert summary["degraded"] is False
    assert summary["releases"] == 1
    assert 3.9 < summary["epsilon_spent"] <= 4.0
    assert 0 < summary["accuracy"] <= 1
    rows = pipeline.synthetic(summary["run_id"])
    missing = shortfall(pipeline, summary["run_id"])
    assert len(rows) == summary["n_synthetic"] == SAMPLES - missing
    assert missing <= SAMPLES * 0.2
    assert rows["text"].nunique() == len(rows)
    assert rows["label"].nunique() == 6
    corpus = pd.read_parquet(CORPUS)
    taught = set(_WORD.findall(" ".join(corpus["text"]).casefold()))
    words = _WORD.findall(" ".join(rows["text"]).casefold())
    assert sum(word in taught for word in words) > 0.9 * len(words), "random weights write no words"
    assert of_their_class(rows, corpus) > 1 / 3, "twice the chance: the prompt's class was heard"


def test_a_served_model_writes_votes_are_cast_and_a_student_is_trained(
    pipeline: Pipeline, served: str, trained_model: Path
) -> None:
    plm = {"name": "clerk", "connector": "openai", "model": str(trained_model), "endpoint": served, "key": "none"}
    more = {"max_tokens": 60, "temperature": 1.0, "options": {"concurrency": 4}}
    summary = pipeline.run(plms=[plm | more], **SHORT)
    check(pipeline, summary)
    host = served.removeprefix("http://").removesuffix("/v1")
    assert host in Path(summary["report"]).read_text(encoding="utf-8"), "the report says where prompts went"


def test_the_same_model_in_the_runs_own_process(pipeline: Pipeline, trained_model: Path) -> None:
    plm = {"name": "clerk", "connector": "hf", "model": str(trained_model), "max_tokens": 60, "temperature": 1.0}
    check(pipeline, pipeline.run(plms=[plm | {"options": {"device": "cpu"}}], **SHORT))
