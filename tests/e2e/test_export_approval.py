"""A bundle leaves only when a second person agrees, on the page of a real Prefect server."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from flows.runtime.state_folder import who
from tests.support.runs.approvals import paused, resume, started, with_form
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.served_flow import ask
from tests.support.waits import WAIT_SECONDS

Finished = tuple[Pipeline, str]


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run whose configuration wants every export approved."""
    pipeline = Pipeline(tmp_path_factory.mktemp("approved") / "home", api)
    small = {"method": {"iterations": 2, "samples": 48}, "test": None, "export": {"approval": True}}
    return pipeline, str(pipeline.run(**small)["run_id"])


def asked(finished: Finished, folder: Path, *options: str) -> tuple[Any, dict[str, Any]]:
    pipeline, run_id = finished
    return started(pipeline, "export", run_id, str(folder), "--json", *options)


def exports(pipeline: Pipeline) -> list[dict[str, Any]]:
    return list(pipeline.answer("budget", "report", "desk")["exports"])


def test_a_refused_export_leaves_nothing_and_says_who_refused(finished: Finished, tmp_path: Path) -> None:
    pipeline, run_id = finished
    process, run = asked(finished, tmp_path / "out")
    form = with_form(pipeline.api, run)
    for word in (run_id, "'desk'", "epsilon", "in 1 releases", "licence       other", "not private", who()):
        assert word in form
    assert not (tmp_path / "out").exists()
    assert resume(pipeline.api, run["id"], approved=False, by="Olga", reason="too early") == "ACCEPT"
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 5
    assert last_json(out)["message"] == "Olga refused this export: too early. Nothing was exported."
    assert ask(pipeline.api, f"/flow_runs/{run['id']}")["state"]["type"] == "FAILED"
    assert list(tmp_path.iterdir()) == []
    assert exports(pipeline) == []


def test_whoever_asks_cannot_approve(finished: Finished, tmp_path: Path) -> None:
    process, run = asked(finished, tmp_path / "out")
    assert resume(finished[0].api, run["id"], approved=True, by=f" {who().upper()} ") == "ACCEPT"
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 5
    assert "cannot approve it. A second person must approve" in last_json(out)["message"]
    assert list(tmp_path.iterdir()) == []


def test_an_approved_export_says_who_agreed_in_manifest_card_book_and_page(finished: Finished, tmp_path: Path) -> None:
    pipeline, run_id = finished
    process, run = asked(finished, tmp_path / "out", "--license", "cc-by-4.0")
    time.sleep(1)
    assert paused(pipeline.api, "")["id"] == run["id"]
    assert resume(pipeline.api, run["id"], approved=True, by="Olga", reason="seen") == "ACCEPT"
    out, errors = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, errors[-3000:]
    assert last_json(out)["run_id"] == run_id
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    agreed = told["approval"]
    assert (agreed["requested_by"], agreed["by"], agreed["reason"]) == (who(), "Olga", "seen")
    assert "approved by Olga on" in (tmp_path / "out" / "README.md").read_text()
    assert json.loads(pipeline.entries()[-1]["detail_json"])["approval"] == agreed
    assert [one["approved"] for one in exports(pipeline)] == ["Olga"]
    pipeline.answer("verify-bundle", str(tmp_path / "out"))


def test_without_a_server_there_is_nobody_to_ask(finished: Finished, tmp_path: Path) -> None:
    alone = Pipeline(finished[0].home)
    done = alone.call("export", finished[1], str(tmp_path / "out"))
    assert done.returncode == 2
    assert "PREFECT_API_URL: not set" in done.stderr
    assert list(tmp_path.iterdir()) == []
