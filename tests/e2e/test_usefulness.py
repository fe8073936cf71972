"""A run that is near chance says so wherever its result is shown."""

import json
from pathlib import Path

import pandas as pd

from tests.support.paths import DESK
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import artifacts, call_api

WARNING = "is not above chance"


def replaying(pipeline: Pipeline) -> dict[str, object]:
    """Run WASP with a model that replays texts of the next class."""
    rows = pd.read_parquet(DESK / "test.parquet")
    labels = sorted(rows["label"].unique())
    answers = pipeline.home.parent / "answers.parquet"
    rows.assign(
        label=rows["label"].map(dict(zip(labels, [*labels[1:], labels[0]], strict=True)))
    ).to_parquet(answers)
    return pipeline.run(plms=[{"name": "replay", "connector": "recorded", "model": str(answers)}])


def test_a_run_whose_texts_teach_nothing_warns_in_every_place(
    pipeline: Pipeline, api: str, tmp_path: Path
) -> None:
    summary = replaying(pipeline)
    run_id, useful = str(summary["run_id"]), summary["usefulness"]
    assert (summary["state"], summary["degraded"]) == ("done", False)
    assert useful["test_rows"] == 90
    assert useful["accuracy"]["low"] < useful["accuracy"]["value"] < useful["chance"] < 0.3
    assert useful["accuracy"]["texts"] == 72
    assert useful["zero_shot"]["texts"] == useful["guided"]["texts"] == 24
    assert WARNING in useful["warnings"][0]
    assert set(useful["warnings"]) <= set(summary["warnings"])

    printed = pipeline.call("show", run_id).stdout
    assert "accuracy    new classifier of the exported texts" in printed
    assert "same models without private data" in printed
    assert "warning     student accuracy" in printed
    assert "preview wasp --config FILE" in printed
    assert f"export {run_id}" not in printed
    assert "done, with warnings" in pipeline.call("runs").stdout

    page = Path(str(summary["report"])).read_text()
    assert "Warning: this result may be useless" in page
    assert page.count(WARNING) == 1
    assert "not better than chance (21.1 %). Do not use it." in page
    assert "same models without private data <small>" in page
    assert "wasp export" not in page

    state = call_api(api, f"/flow_runs/{summary['prefect_run_id']}")["state"]
    assert (state["type"], state["name"]) == ("COMPLETED", "Completed")
    assert useful["line"] in state["message"]
    assert WARNING in state["message"]
    assert (
        "warning     student accuracy"
        in artifacts(api, str(summary["prefect_run_id"]))["report"]["data"]
    )

    better = max(useful["zero_shot"]["value"], useful["zero_shot_soft"]["value"])
    assert summary["zero_shot_accuracy"] == better
    assert summary["adapted_accuracy"] is summary["release_accuracy"] is None

    exported = pipeline.call(
        "export", run_id, str(tmp_path / "bundle"), "--no-overlap-check", code=0
    )
    assert f"warning: {useful['warnings'][0]}" in exported.stdout
    readme = (tmp_path / "bundle" / "README.md").read_text()
    assert "## Usefulness" in readme
    assert "Run at export, these lines reached on TF-IDF of words" in readme
    assert "they are not above chance" in readme
    assert f"**Warning**: {useful['warnings'][0]}" in readme
    assert json.loads((tmp_path / "bundle" / "summary.json").read_text())["usefulness"] == useful

    assert pipeline.answer("resume", run_id)["usefulness"] == useful
