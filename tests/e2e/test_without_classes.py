"""A task without labels: texts of one kind, no classifier, and next words of the test rows as the measure."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from flows.cli import start
from tests.support.runs.pipeline import SMALL, Pipeline

NO_LABEL = {"label": ""}
AUTO = {"guidance": "auto", "iterations": 3, "samples": 72, "examples": 4}
RUNS: dict[str, dict[str, Any]] = {
    "wasp": {},
    "wasp auto": {"method": AUTO, "private": {"declared_rows": 300}},
}
RUNS |= {"aug_pe": {}, "pre_text": {}, "dp_kps": {}, "dp_sgd_gen": {}}
FEW = ("wasp auto", "dp_kps")


def without_classes(pipeline: Pipeline, **changes: Any) -> dict[str, Any]:
    """Return the groups of a configuration without classes; its task requests lines of a support desk."""
    task = pipeline.home.parent / "lines.yaml"
    task.write_text(yaml.safe_dump({"name": "lines", "item": "line of a support desk"}))
    private, test = (SMALL[name] | NO_LABEL for name in ("private", "test"))
    return {
        "task": str(task),
        "test": test,
        **changes,
        "private": private | changes.get("private", {}),
    }


@pytest.mark.parametrize(
    "run", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in RUNS]
)
def test_a_run_writes_exports_and_measures_texts_without_classes(
    api: str, tmp_path: Path, run: str
) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method=run.split()[0])
    summary = pipeline.run(**without_classes(pipeline, **RUNS[run]))
    assert (summary["state"], summary["macro_f1"], summary["classes"]) == ("done", None, [])
    assert summary["next_word_loss"] > 0
    assert summary["usefulness"]["test_rows"] > 500, "words"
    assert summary["usefulness"]["release"] is None
    assert (pipeline.synthetic(summary["run_id"])["label"] == "all").all()
    shown = pipeline.call("show", summary["run_id"]).stdout
    assert "new next-word model of the exported texts" in shown
    assert "words of the test rows" in Path(summary["report"]).read_text()
    refused = pipeline.call("predict", summary["run_id"], "a line")
    assert "has no classifier: its task has no labels" in refused.stderr

    bundle = tmp_path / "bundle"
    pipeline.call("export", summary["run_id"], str(bundle), code=0)
    columns = ["sample_id", "text", "attribute", "plm", "iteration"]
    assert list(pd.read_parquet(bundle / "synthetic.parquet")) == columns
    assert not (bundle / "student").exists()
    card = (bundle / "README.md").read_text()
    assert "task_categories: [text-generation]" in card
    assert "classifier" not in card
    (records,) = json.loads((bundle / "croissant.json").read_text())["recordSet"]
    assert [field["name"] for field in records["field"]] == columns


def test_classes_of_rows_and_task_must_agree(pipeline: Pipeline) -> None:
    groups = without_classes(pipeline)
    for changes, message in (
        (
            {"task": "support_desk"},
            "private.label: is empty, but the task has labels. Name the column of the class",
        ),
        (
            {"test": SMALL["test"]},
            "test.label: the task has no labels, so no class is read. Write test.label: ''",
        ),
        ({"text_labels": "soft"}, "text_labels: soft needs a task with labels. Remove it"),
    ):
        config = str(pipeline.config(**groups | changes))
        assert message in pipeline.call("plan", "wasp", "--config", config, code=2).stderr


@pytest.mark.parametrize("method", ["fusegen", "kd_tutor", "dp_sgd_student", "only_private"])
def test_a_method_that_trains_on_classes_refuses_a_task_without(home: Path, method: str) -> None:
    pipeline = Pipeline(home, method=method)
    groups = without_classes(pipeline)
    groups |= {"private": None} if method == "fusegen" else {}
    with pytest.raises(
        ConfigError,
        match=f"task: 'lines' has no labels, but {method} trains on classes. Add labels",
    ):
        start.plan(method, pipeline.config(**groups), [])
