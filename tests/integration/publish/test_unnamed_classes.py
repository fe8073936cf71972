"""A whole run with classes whose names say nothing: the release finds their topics, which later prompts name."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from flows.methods.wasp.run import WaspRun
from tests.integration.publish.test_public_corpus import QUEUES, UNNAMED
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import states_of_steps

CHANGES: dict[str, Any] = UNNAMED | {
    "method": {"guidance": "kernel", "iterations": 3, "samples": 144, "examples": 4},
}
Finished = tuple[Pipeline, dict[str, Any]]


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    pipeline = Pipeline(tmp_path_factory.mktemp("unnamed") / "home", api)
    return pipeline, pipeline.run(**CHANGES)


def prompts_of(run: Path, iteration: int) -> pd.DataFrame:
    files = sorted((run / f"iteration={iteration}").glob("plm=*/prompts.parquet"))
    return pd.concat([pd.read_parquet(file) for file in files])


def test_prompts_after_the_release_name_words_near_their_class_and_show_no_example(
    finished: Finished,
) -> None:
    pipeline, run = finished
    folder = pipeline.home / "runs" / run["run_id"]
    topics = pd.read_parquet(folder / "topics.parquet")
    assert set(topics["label"]) == set(QUEUES)
    first = prompts_of(folder, 0)
    assert first["text"].nunique() <= 2 * len(QUEUES)
    for iteration in (1, 2):
        later = prompts_of(folder, iteration)
        assert later["text"].nunique() > len(QUEUES)
        for row in later.itertuples():
            own = topics[topics["label"] == row.label]["term"]
            assert sum(word in str(row.text) for word in own) >= 3
            assert "good ones" not in str(row.text)


def test_the_report_tells_the_topics_and_one_release_is_charged(finished: Finished) -> None:
    pipeline, run = finished
    assert pipeline.released() == ["guidance"]
    report = json.loads((pipeline.home / "runs" / run["run_id"] / "report.json").read_text())
    (section,) = (part for part in report["sections"] if part["title"] == "Topics of the classes")
    assert "queue_1: " in section["text"]
    assert "no further epsilon" in section["text"]


def test_a_repeated_run_reuses_the_topics(finished: Finished) -> None:
    pipeline, run = finished
    again = pipeline.run(**CHANGES, tracking={"experiment": "again"})
    assert again["run_id"] == run["run_id"]
    assert states_of_steps(pipeline.api, again["prefect_run_id"])["find topics"] == "Reused"
    assert pipeline.released() == ["guidance"]


@pytest.mark.parametrize(
    ("finds", "stored", "needed"),
    [
        (True, (), True),
        (False, (), False),
        (True, ("iteration=1/plan.json",), False),
        (True, ("iteration=1/plan.json", "topics.parquet"), True),
    ],
    ids=["new", "none", "begun-by-an-earlier-version", "begun-by-this-version"],
)
def test_a_run_of_an_earlier_version_keeps_its_prompts(
    finds: bool, stored: tuple[str, ...], needed: bool
) -> None:
    files = {f"runs/r1/{name}" for name in stored}
    artifacts = SimpleNamespace(exists=files.__contains__)
    run = SimpleNamespace(
        tools=SimpleNamespace(run_id="r1", artifacts=artifacts),
        config=SimpleNamespace(finds_topics=finds),
    )
    assert WaspRun.needs_topics.fget(run) == needed  # type: ignore[attr-defined]
