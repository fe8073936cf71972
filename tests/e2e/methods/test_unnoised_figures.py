"""Figures on the drawn rows of a public benchmark: without noise, marked everywhere, refused for other rows."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from connectors.embedders.registry import open_embedder
from connectors.interfaces.rows import RowsRef
from connectors.rows.reader import read_rows
from tasks.metrics.metrics import fid
from tests.support.runs.pipeline import SMALL, Pipeline

PUBLIC = {"rows": 120, "rows_are_public": True, "name": "benchmark"}
CHANGES = {
    "private": PUBLIC,
    "evaluation": {"unnoised_figures": True},
    # Enough texts for some that no teacher has seen.
    "method": {"written": 240},
}
FID = "fid_records_not_private"
TEACHERS = ("teachers_accuracy_not_private", "noisy_teachers_accuracy_not_private")
Done = tuple[Pipeline, dict[str, Any]]


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    pipeline = Pipeline(tmp_path_factory.mktemp("figures") / "home", api, method="kd_tutor")
    return pipeline, pipeline.run(**CHANGES)


def test_the_fid_is_that_of_the_texts_and_the_drawn_rows(finished: Done) -> None:
    pipeline, summary = finished
    embedder = open_embedder(SMALL["embedder"]["connector"], "", SMALL["embedder"]["options"])
    folder = pipeline.home / "runs" / summary["run_id"]
    texts = pd.read_parquet(folder / "synthetic.parquet")["text"].tolist()
    # All rows of the table are drawn.
    rows = read_rows(RowsRef(SMALL["private"]["path"]))["text"].tolist()
    assert len(rows) == PUBLIC["rows"]
    expected = fid(embedder.embed(texts), embedder.embed(rows))
    assert summary["iterations"][-1][FID] == pytest.approx(expected, rel=1e-6)
    assert summary[FID] == summary["iterations"][-1][FID]


def test_the_teachers_are_measured_with_and_without_the_noise_of_their_answers(
    finished: Done,
) -> None:
    _, summary = finished
    exact, noisy = (summary["iterations"][-1][name] for name in TEACHERS)
    assert 0.5 < exact <= 1
    assert 0 <= noisy <= 1
    # Noise for 20 answers of three teachers: most of what they know is lost.
    assert noisy < exact


def test_every_place_says_that_they_are_not_private(finished: Done) -> None:
    pipeline, summary = finished
    looks = [entry for entry in pipeline.entries("benchmark") if entry["kind"] == "look"]
    assert sorted(entry["slot"] for entry in looks) == ["fid-0", "teachers"]
    page = (pipeline.home / "runs" / summary["run_id"] / "report.html").read_text()
    for title in ("FID against the drawn records", "Accuracy of the teachers (chance 0.5)"):
        assert f"{title}, NOT PRIVATE" in page
    for what in ("FID against the drawn records", "accuracy of the teachers"):
        assert f">{what}</th>" in page
    again = pipeline.run(**CHANGES)
    assert again["iterations"] == summary["iterations"]
    assert len([e for e in pipeline.entries("benchmark") if e["kind"] == "look"]) == 2


def test_rows_that_are_not_declared_public_are_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home")
    config = pipeline.config(evaluation={"unnoised_figures": True})
    said = pipeline.call("plan", "wasp", "--config", str(config), code=2).stderr
    assert "evaluation.unnoised_figures compares with the records without noise" in said
