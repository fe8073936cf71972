"""PrE-Text and Aug-PE from end to end: what each promises of its steps, its budget, and its result."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.runs.pipeline import METHODS, Pipeline, last_json

RIVALS = ["pre_text", "aug_pe", pytest.param("aug_pe as in WASP", marks=pytest.mark.slow)]
Done = tuple[Pipeline, dict[str, Any]]


@pytest.fixture(scope="module", params=RIVALS)
def finished(request: pytest.FixtureRequest, api: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    home = tmp_path_factory.mktemp("rival") / "home"
    pipeline = Pipeline(home, api, method=request.param)
    return pipeline, pipeline.run()


def read(done: Done, pattern: str) -> dict[str, pd.DataFrame]:
    pipeline, summary = done
    folder = pipeline.home / "runs" / summary["run_id"]
    return {str(file.relative_to(folder)): pd.read_parquet(file, partitioning=None) for file in folder.glob(pattern)}


def test_it_ends_with_balanced_distinct_texts_within_its_budget(finished: Done) -> None:
    pipeline, summary = finished
    assert summary["state"] == "done"
    assert summary["releases"] == 2, "as many as the noise was made for"
    assert 3.99 < summary["epsilon_spent"] <= 4.0
    rows = pipeline.synthetic(summary["run_id"])
    assert len(rows) == summary["n_synthetic"] == METHODS[pipeline.method]["samples"]
    assert rows["label"].value_counts().nunique() == 1, "as many of each class, whatever the private rows are"
    assert not rows.duplicated(["text", "label"]).any()
    assert set(rows["plm"]) <= {"clerk", "novelist"}
    assert 0 < summary["accuracy"] <= 1
    assert summary["fid"] > 0


def test_what_leaves_a_vote_is_one_noisy_count_per_candidate(finished: Done) -> None:
    for release in read(finished, "iteration=*/release.parquet").values():
        assert release.columns.tolist() == ["sample_id", "near"]
        assert (release["near"] % 128 != 0).mean() > 0.7, "a count without noise is a multiple of one vote"


def test_the_seed_of_a_run_does_not_draw_its_noise(finished: Done, api: str, tmp_path: Path) -> None:
    pipeline, _ = finished
    other = Pipeline(tmp_path / "home", api, method=pipeline.method)
    again = other.run()
    first, second = (
        next(iter(read(one, "iteration=0/release.parquet").values())) for one in (finished, (other, again))
    )
    assert first["sample_id"].tolist() == second["sample_id"].tolist()
    assert (first["near"] != second["near"]).mean() > 0.7  # few numbers, some of which are equal by chance
    both = [*read(finished, "iteration=*/release.parquet").values()]
    size = min(map(len, both))
    assert (both[0]["near"][:size].to_numpy() != both[1]["near"][:size].to_numpy()).mean() > 0.9


def test_a_second_run_draws_and_asks_nothing(finished: Done) -> None:
    pipeline, summary = finished
    before = pipeline.releases(summary["run_id"])
    assert pipeline.run()["run_id"] == summary["run_id"]
    assert pipeline.releases(summary["run_id"]) == before
    entries = last_json(pipeline.call("budget", "history", "desk", "--json").stdout)["entries"]
    assert [entry["kind"] for entry in entries].count("release") == 2


def test_report_show_and_export_answer_as_for_wasp(finished: Done, tmp_path: Path) -> None:
    pipeline, summary = finished
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert summary["run_id"] in page
    assert "discrete" in page
    shown = pipeline.call("show", summary["run_id"]).stdout
    assert "new clerk" in shown
    assert "weight" not in shown, "these methods weigh no model"
    exported = pipeline.call("export", summary["run_id"], str(tmp_path / "bundle"), "--json")
    assert exported.returncode == 0, exported.stderr
    assert pipeline.flow in (tmp_path / "bundle" / "README.md").read_text() + summary["run_id"]


def test_every_answer_of_every_model_is_told_in_the_report(finished: Done) -> None:
    _, summary = finished
    asked = sum(len(table) for table in read(finished, "iteration=*/**/prompts.parquet").values())
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert f"{asked:,} calls" in page


def test_texts_stand_where_their_variations_lie_on_average(finished: Done) -> None:
    pipeline, summary = finished
    if pipeline.method == "aug_pe as in WASP":
        pytest.skip("it votes on the texts as they are")
    folder = pipeline.home / "runs" / summary["run_id"] / "iteration=1"
    (mean,) = sorted(folder.glob("ahead=*filler*/mean.parquet")) or sorted(folder.glob("ahead=survivors/mean.parquet"))
    ahead = [pd.read_parquet(file, partitioning=None) for file in sorted(mean.parent.glob("plm=*/samples.parquet"))]
    parents = folder.parent / "iteration=0" / "survivors.parquet"
    if pipeline.method == "pre_text":
        parents = folder / "varied" / "plm=filler" / "samples.parquet"
    ids = pd.read_parquet(parents, partitioning=None)["sample_id"]
    stored = pd.read_parquet(mean, partitioning=None).iloc[:, 0]
    vectors = [np.frombuffer(value, dtype="<f4") for value in stored]
    from connectors.embedders.registry import open_embedder

    embedder = open_embedder("hashing", "", {"dimension": 128})
    texts = pd.concat(ahead)
    for place, number in enumerate(ids[:5]):
        own = texts[texts["parent_id"] == number]["text"].tolist()
        assert own, "every text has variations"
        expected = embedder.embed(own).astype(np.float64).mean(axis=0)
        assert vectors[place] == pytest.approx(expected, abs=1e-6)


def test_a_cap_refuses_it_before_a_row_is_opened(api: str, tmp_path: Path) -> None:
    for method in ("pre_text", "aug_pe"):
        pipeline = Pipeline(tmp_path / method, api, method=method)
        assert pipeline.call("budget", "cap", "desk", "--epsilon", "2", "--declare").returncode == 0
        refused = pipeline.call("run", pipeline.flow, "--config", str(pipeline.config()))
        assert refused.returncode == 3
        assert "left 2" in refused.stderr
        assert not list((pipeline.home / "private").glob("embeddings/*"))


def test_persons_are_protected_by_the_same_votes(api: str, tmp_path: Path) -> None:
    import connectors.data

    rows = pd.read_parquet(Path(connectors.data.__file__).parent / "support_desk" / "private.parquet")
    rows["whose"] = [f"person {number // 4}" for number in range(len(rows))]
    rows.to_parquet(tmp_path / "rows.parquet")
    pipeline = Pipeline(tmp_path / "home", api, method="pre_text")
    private = {"path": str(tmp_path / "rows.parquet"), "person": "whose"}
    done = pipeline.run(private=private, privacy={"protects": "person", "rows_per_person": 4})
    entries = last_json(pipeline.call("budget", "history", "desk", "--json").stdout)["entries"]
    released = [entry for entry in entries if entry["kind"] == "release"]
    assert [entry["sensitivity"] for entry in released] == [2.0, 2.0], "sqrt(4) times one vote"
    assert done["epsilon_spent"] <= 4.0


def test_a_model_that_fills_masks_cannot_be_asked_to_write(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", method="pre_text")
    config = pipeline.config(plms=[{"name": "mask", "connector": "fill_mask", "model": "roberta-large"}])
    refused = pipeline.call("plan", "pre_text", "--config", str(config))
    assert refused.returncode == 2
    assert "'mask' is a fill_mask model" in refused.stderr


def test_a_lost_cache_finds_the_same_votes_again(finished: Done) -> None:
    pipeline, summary = finished
    before = pipeline.releases(summary["run_id"])
    for name in ("runs", "embeddings", "completions"):
        shutil.rmtree(pipeline.home / name)
    again = pipeline.run()
    assert pipeline.releases(again["run_id"]) == before
    assert again["accuracy"] == summary["accuracy"]
    entries = last_json(pipeline.call("budget", "history", "desk", "--json").stdout)["entries"]
    assert [entry["kind"] for entry in entries].count("release") == 2
