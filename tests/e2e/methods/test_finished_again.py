"""A finished run that is started again: its summary comes back before anything else starts, if all of it is intact."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError
from flows.config.files import load_config
from flows.engine import finished
from flows.engine.finished import load_intact_summary
from flows.engine.prepare import Prepared, check_run, prepare_checked
from flows.methods.wasp.config import WaspConfig
from flows.runtime.manifest import RunManifest, lock_run_files, read_manifest
from tests.support.runs.pipeline import Pipeline, last_json

Again = tuple[Callable[[], Prepared], Path]


@pytest.fixture
def again(whole_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    """Return a function that prepares the finished run in a copy of its state folder, and the run's folder there."""
    pipeline, summary = whole_run
    copy = pipeline.copied(tmp_path / "copy")
    folder = copy.home / "runs" / summary["run_id"]
    # MLflow has the copy of its database.
    description = folder / "mlflow.json"
    text = description.read_text().replace(str(pipeline.home), str(copy.home))
    description.write_text(text)
    monkeypatch.setenv("WASP_HOME", str(copy.home))
    config = load_config(WaspConfig, copy.config())
    return lambda: prepare_checked(check_run("wasp", config, copy.home)), folder


def test_an_intact_run_gives_back_its_summary_and_stays_done(again: Again) -> None:
    prepare, folder = again
    prepared = prepare()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    entries = prepared.tools.ledger.history(prepared.tools.run_name.dataset)
    stored = json.loads((folder / "summary.json").read_text())
    summary = load_intact_summary(prepared)
    assert summary is not None
    assert summary | {"folder": "", "report": ""} == stored | {
        "folder": "",
        "report": "",
        "mlflow": summary["mlflow"],
    }
    assert summary["report"] == str(folder / "report.html")
    assert prepared.tools.ledger.history(prepared.tools.run_name.dataset) == entries
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["state"] == "done"
    assert len(manifest["resumed"]) >= 1
    changed = {path.name for path in before if path.stat().st_mtime_ns != before[path]}
    assert changed == {"manifest.json"}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a damaged table": lambda folder: _cut(folder / "synthetic.parquet"),
    "a missing release": lambda folder: (folder / "iteration=0" / "release.parquet").unlink(),
    "a missing manifest": lambda folder: (folder / "_synthetic.parquet.json").unlink(),
    "a missing student": lambda folder: next((folder / "student").iterdir()).unlink(),
    "missing embeddings": lambda folder: [
        path.unlink() for path in (folder.parents[1] / "embeddings").rglob("*.parquet")
    ],
    "another report": lambda folder: (folder / "report.json").write_text("{}"),
    "no page": lambda folder: (folder / "report.html").unlink(),
    "no record": lambda folder: (folder / "finished.json").unlink(),
    "a damaged record": lambda folder: _cut(folder / "finished.json"),
    "no MLflow database": lambda folder: (folder.parents[1] / "mlflow.db").unlink(),
    "results that MLflow lacks": lambda folder: (folder / "mlflow.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_run_with_any_damage_runs(again: Again, damage: Callable[[Path], object]) -> None:
    prepare, folder = again
    damage(folder)
    assert load_intact_summary(prepare()) is None


def test_a_run_of_another_program_or_state_runs(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, folder = again
    prepared = prepare()
    with monkeypatch.context() as context:
        context.setattr(finished, "code_stamp", lambda: "an update")
        assert load_intact_summary(prepared) is None
    stored = read_manifest(prepared.tools.artifacts, folder.name)
    RunManifest(prepared.tools.artifacts, stored).update(state="interrupted")
    assert load_intact_summary(prepared) is None


def test_a_degraded_run_tries_its_models_again(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, folder = again
    monkeypatch.setattr(finished, "_is_intact", lambda *_: True)
    assert load_intact_summary(prepare()) is not None
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | {"degraded": True}))
    assert load_intact_summary(prepare()) is None


def test_a_release_that_the_ledger_lacks_or_adds_lets_the_run_go_on(again: Again) -> None:
    prepare, folder = again
    record = folder / "finished.json"
    values = json.loads(record.read_text())
    for entries in (values["entries"][1:], [*values["entries"], "f" * 64]):
        record.write_text(json.dumps(values | {"entries": entries}))
        assert load_intact_summary(prepare()) is None


def test_a_run_that_another_process_executes_is_refused(again: Again) -> None:
    prepare, folder = again
    prepared = prepare()
    with (
        lock_run_files(prepared.tools.home, folder.name),
        pytest.raises(ConfigError, match="already executed by another process"),
    ):
        load_intact_summary(prepared)


def test_the_command_starts_no_server_for_a_finished_run(whole_run) -> None:
    pipeline, _ = whole_run
    # Without the server that made it: the command would start a temporary one.
    alone = Pipeline(pipeline.home)
    run = ("run", "wasp", "--config", str(alone.config()), "--json")
    before = pipeline.entries()
    done = alone.call(*run, code=0)
    stored = json.loads(
        (pipeline.home / "runs" / last_json(done.stdout)["run_id"] / "summary.json").read_text()
    )
    assert last_json(done.stdout) == stored
    assert "temporary server" not in done.stderr
    assert "finished before" in done.stderr
    assert pipeline.entries() == before
