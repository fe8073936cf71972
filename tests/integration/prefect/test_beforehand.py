"""Checks of a command before Prefect starts: the messages of `wasp plan`, no server, no import of Prefect."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.config.files import check_config
from flows.engine.beforehand import check_first, prepare_beforehand, prepare_once
from flows.engine.prepare import Checked, Prepared
from flows.federation.local_parties import WITHOUT_PARTIES
from flows.methods.wasp.config import WaspConfig
from flows.runtime.handover import handed_over, take
from flows.runtime.prefect_settings import may_be_configured, needs_configured_server
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, values

COMMAND = """
import subprocess, sys
from flows.cli import main

def refuse(*arguments, **options):
    raise AssertionError(f"a process started: {arguments}")

subprocess.Popen = refuse
sys.argv = ["wasp", *sys.argv[1:]]
try:
    main.main()
finally:
    print("prefect" in sys.modules, file=sys.stderr)
"""
"""The command in a process that starts no other one."""

REFUSED: dict[str, dict[str, Any]] = {
    "numbers": {"method": {"samples": 5}},
    "a missing setting": {"method": {"guidance": "auto"}},
    "a missing file": {"test": {"path": "missing.parquet"}},
    "an unknown connector": {"plms": [{"name": "clerk", "connector": "none"}]},
    "two problems": {"test": {"path": "missing.parquet"}, "method": {"samples": 5}},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_a_run_is_refused_with_the_message_of_its_plan_and_without_prefect(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    pipeline = Pipeline(tmp_path / "home")
    config = str(pipeline.config(**changes))
    plan = pipeline.call("plan", "wasp", "--config", config, code=2)
    problems = [line for line in plan.stderr.splitlines() if line.startswith("wasp: ")]
    assert problems
    command = [sys.executable, "-c", COMMAND, "run", "wasp", "--config", config]
    run = subprocess.run(
        command, cwd=ROOT, env=pipeline.environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 2, run.stderr
    lines = run.stderr.splitlines()
    for problem in problems:
        assert any(line.startswith(problem.rstrip(".")) for line in lines), (problem, lines)
    assert lines[-1] == "False"


def test_an_audit_without_noise_is_refused_before_a_server_starts(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", method="fusegen")
    done = pipeline.call("audit", "--config", str(pipeline.config(flow="fusegen")), code=2)
    assert "so there is nothing to audit" in done.stderr
    assert "temporary server" not in done.stderr


def test_a_comparison_without_parties_is_refused_before_a_server_starts(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home")
    rows = [{"name": "one", "flow": "wasp", "config": str(pipeline.config())}]
    compared = tmp_path / "compare.yaml"
    compared.write_text(json.dumps({"title": "two", "rows": rows, "local_parties": 2}))
    done = pipeline.call("compare", "--config", str(compared), code=2)
    assert WITHOUT_PARTIES.rstrip(".") in done.stderr
    assert "temporary server" not in done.stderr


def _config(**changes: Any) -> WaspConfig:
    return check_config(WaspConfig, values(**changes), "the test")


def test_the_flow_takes_once_what_the_command_prepared(home: Path) -> None:
    config = _config()
    prepared = prepare_beforehand(check_first("wasp", config, None))
    assert isinstance(prepared, Prepared)
    with handed_over("wasp", config, None, prepared):
        assert take("wasp", _config(execution={"seed": 1})) is None
        assert take("wasp", config, "another-run") is None
        assert prepare_once("wasp", _config(), home, None, None) is prepared
        again = prepare_once("wasp", config, home, None, None)
    assert again is not prepared
    assert again.tools.run_id == prepared.tools.run_id


def test_rows_stay_closed_before_an_approval_and_for_a_configured_server(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved = _config(execution={"approval": True}, private={"classes": None})
    monkeypatch.setattr("flows.engine.checks._is_unseen", lambda *_: False)
    monkeypatch.setattr("flows.engine.beforehand.prepare_checked", _refuse)
    assert isinstance(prepare_beforehand(check_first("wasp", approved, None)), Checked)
    monkeypatch.setattr("flows.engine.beforehand.needs_configured_server", lambda: True)
    assert isinstance(prepare_beforehand(check_first("wasp", _config(), None)), Checked)


def _refuse(*_: object) -> None:
    raise AssertionError("rows were opened")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".env", "PREFECT_API_URL=http://host/api\n"),
        ("prefect.toml", "[api]\n"),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "http://host/api"\n'),
        ("pyproject.toml", "not [ toml"),
        ("prefect/profiles.toml", ""),
    ],
)
def test_a_file_that_may_name_a_server_lets_prefect_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["prefect"]\n')
    assert not may_be_configured()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert may_be_configured()


@pytest.mark.parametrize("name", ["PREFECT_API_URL", "PREFECT_PROFILE"])
def test_a_variable_that_may_name_a_server_lets_prefect_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    assert not may_be_configured()
    monkeypatch.setenv(name, "http://host/api")
    assert may_be_configured()


def test_prefect_decides_where_it_is_loaded() -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: "http://host/api"}):
        assert needs_configured_server()
