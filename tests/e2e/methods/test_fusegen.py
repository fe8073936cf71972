"""FuseGen from end to end: what its steps promise, and that a run without private rows is whole everywhere."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.runs.pipeline import Pipeline
from tests.support.waits import wait_until

Done = tuple[Pipeline, dict[str, Any]]


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    pipeline = Pipeline(tmp_path_factory.mktemp("fusegen") / "home", api, method="fusegen")
    return pipeline, pipeline.run()


def table(done: Done, name: str) -> pd.DataFrame:
    pipeline, summary = done
    return pd.read_parquet(pipeline.home / "runs" / summary["run_id"] / name, partitioning=None)


def test_it_ends_with_distinct_balanced_texts_in_equal_shares(finished: Done) -> None:
    rows = table(finished, "synthetic.parquet")
    assert len(rows) == finished[1]["n_synthetic"] == 108
    assert rows["label"].value_counts().nunique() == 1
    assert rows["plm"].value_counts().tolist() == [54, 54]
    assert not rows.duplicated(["text", "label"]).any()
    assert 0 < finished[1]["accuracy"] <= 1


def test_all_classes_are_shown_the_same_texts_as_is_published(finished: Done) -> None:
    chosen = table(finished, "iteration=0/selection.parquet")
    assert chosen["score"].head(4).is_monotonic_decreasing
    assert len({tuple(of_class["sample_id"]) for _, of_class in chosen.groupby("label")}) == 1
    assert chosen["label"].value_counts().tolist() == [4] * 6


def test_the_examples_in_the_prompts_are_those_of_the_round_before(finished: Done) -> None:
    pipeline, summary = finished
    folder = pipeline.home / "runs" / summary["run_id"]
    shown = [set(table(finished, f"iteration={t}/selection.parquet")["text"]) for t in (0, 1)]
    assert shown[0] != shown[1], "the published code showed the first round's for ever"
    for t in (1, 2):
        for prompts in folder.glob(f"iteration={t}/plm=*/prompts.parquet"):
            for prompt in pd.read_parquet(prompts, partitioning=None)["text"]:
                assert all(" ".join(text.split()) in prompt for text in shown[t - 1])
                assert "their classes differ" in prompt


def test_every_model_has_a_student_that_judges_the_texts_of_all(finished: Done) -> None:
    for plm in ("clerk", "novelist"):
        judged = table(finished, f"iteration=1/plm={plm}/judgement.parquet")
        assert len(judged) == 72
        assert Counter(judged["part"]) == {"": 36, "train": 30, "validation": 6}
        assert judged["probability"].between(0, 1).all()
        assert judged.query("part == 'train'")["weight"].mean() == pytest.approx(1.0)


def test_nothing_private_is_opened_charged_or_claimed(finished: Done, tmp_path: Path) -> None:
    pipeline, summary = finished
    assert (summary["epsilon_spent"], summary["releases"], summary["dataset"]) == (0.0, 0, "")
    assert pipeline.answer("budget", "show")["datasets"] == []
    page = Path(summary["report"]).read_text()
    assert "No private rows were opened" in page
    assert "NOT PRIVATE" not in page
    assert "guided by" not in page
    shown = pipeline.call("show", summary["run_id"]).stdout
    assert "no private data used, epsilon 0" in shown
    assert "budget history" not in shown
    bundle = tmp_path / "bundle"
    pipeline.answer("export", summary["run_id"], str(bundle))
    card = (bundle / "README.md").read_text()
    assert "No private rows were opened" in card
    assert "not in a privacy ledger" in card
    assert "differential privacy" not in card.lower()
    described = json.loads((bundle / "croissant.json").read_text())
    assert described["rai:personalSensitiveInformation"] == "No private rows were opened."
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["privacy"]["epsilon_spent"] == 0.0
    assert manifest["overlap_check"] == {"done": False, "why": "this run opened no private row"}
    pipeline.call("verify-bundle", str(bundle), code=0)


def test_killed_and_resumed_it_gives_the_same_result(
    finished: Done, api: str, tmp_path: Path
) -> None:
    whole, summary = finished
    pipeline = Pipeline(tmp_path / "home", api, method="fusegen")
    process = pipeline.start("run", "fusegen", "--config", str(pipeline.config()), "--json")
    wait_until(
        lambda: list(pipeline.home.glob("runs/*/iteration=0/plm=*/judgement.parquet")),
        process,
        every=0.02,
    )
    process.kill()
    process.communicate()
    resumed = pipeline.answer("resume", summary["run_id"])
    location = Path("runs") / summary["run_id"] / "synthetic.parquet"
    assert (pipeline.home / location).read_bytes() == (whole.home / location).read_bytes()
    for name in ("accuracy", "macro_f1", "fid", "n_synthetic"):
        assert resumed[name] == summary[name]
