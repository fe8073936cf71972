"""The manifests of runs, as the commands read them."""

import json
from pathlib import Path

import pytest

from connectors.interfaces.errors import ArtifactError
from flows.cli import commands


def test_one_damaged_manifest_does_not_hide_the_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_HOME", str(tmp_path))
    for name, text in (("whole", json.dumps({"run_id": "whole", "state": "done"})), ("broken", "{")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "manifest.json").write_text(text)
    states = {run["run_id"]: run["state"] for run in commands.runs()["runs"]}
    assert states == {"whole": "done", "broken": "damaged"}
    with pytest.raises(ArtifactError, match=r"broken/manifest\.json is damaged"):
        commands.show("broken")
