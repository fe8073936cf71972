"""A whole run whose prompts show no examples: the release weighs the models and labels the texts."""

from typing import Any

import pandas as pd
import pytest

from tests.integration.publish.test_unnamed_classes import prompts_of
from tests.support.runs.pipeline import Pipeline

METHOD = {"guidance": "kernel", "iterations": 3, "samples": 72, "examples": 0}
# At the default epsilon the noise makes the two weights equal to 0.01 in about one run of several hundred.
PRIVACY = {"epsilon": 100.0}


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, dict[str, Any]]:
    pipeline = Pipeline(tmp_path_factory.mktemp("plain") / "home", api)
    return pipeline, pipeline.run(method=METHOD, privacy=PRIVACY, text_labels="soft")


def test_later_prompts_are_those_of_the_first_iteration(
    finished: tuple[Pipeline, dict[str, Any]],
) -> None:
    pipeline, run = finished
    folder = pipeline.home / "runs" / run["run_id"]
    first = set(prompts_of(folder, 0)["text"])
    for iteration in (1, 2):
        assert set(prompts_of(folder, iteration)["text"]) <= first
    assert not list(folder.rglob("selection.parquet"))


def test_the_release_is_charged_once_weighs_the_models_and_labels_the_texts(
    finished: tuple[Pipeline, dict[str, Any]],
) -> None:
    pipeline, run = finished
    assert pipeline.released() == ["guidance"]
    weights = run["iterations"][1]["weights"]
    assert abs(weights["clerk"] - weights["novelist"]) > 0.1
    texts = pipeline.synthetic(run["run_id"])
    assert len(texts) == METHOD["samples"]
    labels = pd.DataFrame(texts["label_soft"].tolist())
    assert labels.sum(axis=1).round(4).eq(1).all()
    assert labels.max(axis=1).lt(1).all()
