"""A metric of another package: installed as pip does, measured, tracked, reported and compared without a change."""

import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.packages import install, with_packages
from tests.support.runs.pipeline import SMALL, written
from wasp.extend import Metric
from wasp.testing import MetricContract

SOURCE = """
from wasp.extend import Metric


def mean_words(rows):
    return sum(len(text.split()) for text in rows.texts.texts) / len(rows.texts.texts)


METRIC = Metric(name="mean_words", title="Mean number of words", label="words", measure=mean_words)
"""
CONFIG = SMALL | {"method": SMALL["method"] | {"iterations": 2, "samples": 36}}


class TestItsContract(MetricContract):
    @pytest.fixture
    def metric(self) -> Metric:
        names: dict[str, Any] = {}
        exec(SOURCE, names)
        return names["METRIC"]


@pytest.mark.runs
def test_it_is_measured_tracked_and_compared(tmp_path: Path) -> None:
    home, folder, config = (
        tmp_path / "home",
        tmp_path / "site",
        str(written(tmp_path / "wasp.yaml", CONFIG)),
    )
    wasp = with_packages(folder, home)
    before = wasp.answer("run", "wasp", "--config", config)
    assert "mean_words" not in before
    install(folder, "wasp_words", SOURCE, {"wasp.metrics": {"mean_words": "wasp_words:METRIC"}})
    run = wasp.answer("run", "wasp", "--config", config)
    lengths = (
        pd.read_parquet(home / "runs" / run["run_id"] / "synthetic.parquet")["text"]
        .str.split()
        .str.len()
    )
    assert run["run_id"] == before["run_id"], (
        "the finished run is measured again, and nothing is generated or spent"
    )
    assert (run["epsilon_spent"], run["accuracy"], run["fid"]) == (
        before["epsilon_spent"],
        before["accuracy"],
        before["fid"],
    )
    assert run["mean_words"] == pytest.approx(lengths.mean())
    assert [
        set(iteration) - set(first)
        for iteration, first in zip(run["iterations"], before["iterations"], strict=True)
    ] == [{"mean_words"}] * 2
    with sqlite3.connect(home / "mlflow.db") as database:
        query = "select value from latest_metrics where run_uuid = ? and key = 'texts/mean_words'"
        assert database.execute(query, (run["mlflow_run_id"],)).fetchall() == [(run["mean_words"],)]
    table = {"title": "Words", "rows": [{"name": "W", "config": config}], "metrics": ["mean_words"]}
    compared = wasp.answer("run", "compare", "--config", str(written(tmp_path / "c.yaml", table)))
    assert [cell["values"]["mean_words"] for cell in compared["cells"]] == [run["mean_words"]]
