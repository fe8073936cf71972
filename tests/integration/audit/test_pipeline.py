"""One whole run is attacked in a folder of its own, and nothing of the user's is touched."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from connectors.interfaces.errors import AuditError, ConfigError
from flows.audit import text, whole_run
from flows.audit.config import AuditConfig, PipelineAttack
from flows.audit.whole_run import attack_whole_run, plan_whole_run, whole_run_config
from flows.cli import start
from flows.config.files import load_config
from flows.engine.prepare import guarantee_of
from flows.methods.wasp.config import WaspConfig
from tests.support.paths import DESK, ROOT
from tests.support.runs.pipeline import SMALL, Pipeline, written
from tests.support.runs.served_flow import artifacts

WHOLE = PipelineAttack(canaries=600)


@pytest.fixture
def small(tmp_path: Path) -> AuditConfig:
    """The attack on a pipeline of two small models; with enough texts to contain what leaks."""
    values = SMALL | {
        "method": {"guidance": "votes", "iterations": 3, "samples": 600, "votes": 8, "examples": 4}
    }
    return config_of(tmp_path, values)


def config_of(folder: Path, values: dict[str, Any]) -> AuditConfig:
    return AuditConfig(config=str(written(folder / "small.yaml", values)))


def replaced(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(whole_run, "COMMAND", (sys.executable, "-c", code))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def of(result: dict[str, Any], what: str) -> dict[str, Any]:
    return next(attack for attack in result["attacks"] if attack["what"] == what)


def nothing_is_left(home: Path) -> bool:
    return list(home.rglob("*")) == [home / "private"]


@pytest.mark.slow
@pytest.mark.statistical
def test_a_sound_run_passes_and_the_flow_touches_no_ledger_and_no_server_of_the_user(
    pipeline: Pipeline, small: AuditConfig
) -> None:
    result = pipeline.answer("audit", "--config", small.config, "--whole-run", "--trials", "50")
    whole = result["pipeline"]
    assert [attack["what"] for attack in whole["attacks"]] == [
        "noisy votes",
        "likelihood of the texts",
    ]
    assert whole["passed"] is True
    assert whole["epsilon_proven"] <= whole["epsilon_claimed"] <= 4.0
    assert of(whole, "noisy votes")["auc"] > 0.55
    assert of(whole, "likelihood of the texts")["auc"] < 0.65
    assert not (pipeline.home / "ledger.db").exists()
    assert not [path for path in (pipeline.home / "private").rglob("*") if path.is_file()]
    assert {path.name for path in (pipeline.home / "runs").iterdir()} == {result["run_id"]}
    shown = artifacts(pipeline.api, result["prefect_run_id"])
    for part in ("wasp tight", "whole run", "AUC"):
        assert part in shown["audit"]["data"]
    assert (
        "Attacks on a whole run"
        in (pipeline.home / "runs" / result["run_id"] / "report.html").read_text()
    )


def test_a_run_that_fails_says_why_and_leaves_nothing(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(monkeypatch, "import sys; sys.exit('wasp: nothing works here')")
    with pytest.raises(AuditError, match="nothing was attacked: wasp: nothing works here"):
        attack_whole_run(small, WHOLE, tmp_path / "home")
    assert nothing_is_left(tmp_path / "home")


def test_the_end_of_the_audit_ends_the_run(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(
        monkeypatch,
        f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(300)",
    )

    def interrupt(*_: Any) -> None:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            attack_whole_run(small, WHOLE, tmp_path / "home")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    time.sleep(0.2)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert nothing_is_left(tmp_path / "home")


def test_the_rows_that_vote_are_never_the_users(tmp_path: Path) -> None:
    private = tmp_path / "notes.csv"
    private.write_text("text,label\nmy own words,login_problem\n")
    config = config_of(tmp_path, SMALL | {"private": {"path": str(private)}})
    attacked = whole_run_config(config)
    assert attacked.private.path == "builtin:support_desk/private.parquet"
    assert (attacked.test, attacked.public, attacked.evaluation.fid_reference) == (
        None,
        None,
        "none",
    )
    assert str(private) not in attacked.model_dump_json()
    other = whole_run_config(
        config_of(tmp_path, SMALL | {"task": "imdb", "private": {"path": str(private)}})
    )
    assert (other.task, other.private.path) == (attacked.task, attacked.private.path)


@pytest.mark.parametrize("protects", ["record", "person"])
def test_the_noise_is_that_of_the_configuration(tmp_path: Path, protects: str) -> None:
    sample = {"person": "who", "rows": 100, "of": 200} if protects == "person" else {"rows": 100}
    values = SMALL | {
        "private": SMALL["private"] | sample,
        "privacy": {"protects": protects, "epsilon": 3.0},
    }
    config = config_of(tmp_path, values)
    assert (
        guarantee_of(whole_run_config(config)).noise
        == guarantee_of(load_config(WaspConfig, Path(config.config))).noise
    )


def test_the_environment_leads_to_nothing_of_the_user(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = "import json, os, sys; json.dump(dict(os.environ), open(os.environ['SEEN'], 'w')); sys.exit('seen')"
    replaced(monkeypatch, seen)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    theirs = {
        "WASP_HOME": str(tmp_path / "theirs"),
        "WASP_LEDGER_URL": "sqlite:///theirs.db",
        "WASP_ARTIFACTS": "s3://theirs",
        "MLFLOW_TRACKING_URI": "http://theirs",
        "PREFECT_API_URL": "http://theirs/api",
        "PREFECT__FLOW_RUN_ID": "theirs",
    }
    stored = {"WASP_DATA": "kept", "WASP_SECRET_KEY": "kept"}
    for name, value in (theirs | stored).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AuditError, match="seen"):
        attack_whole_run(small, WHOLE, tmp_path / "home")
    environment = json.loads((tmp_path / "seen.json").read_text())
    assert not [value for value in environment.values() if "theirs" in value]
    assert {name: environment[name] for name in stored} == stored
    assert str(tmp_path / "home" / "private") in environment["WASP_HOME"]


def test_the_plan_says_what_so_many_canaries_can_prove(home: Path, tmp_path: Path) -> None:
    plan = start.plan("audit", ROOT / "deployments" / "configs" / "audit_pipeline_here.yaml", [])
    whole = plan["pipeline"]
    assert whole["epsilon_most"] == pytest.approx(4.19, abs=0.01)
    assert whole["epsilon_most"] > whole["epsilon_claimed"], (
        "a run that keeps nothing of epsilon 4 can be red"
    )
    shown = text.plan(plan)
    assert (
        "480 texts by smollm2, helpdesk, terse, formal, story, 600 canaries, 250 guesses: at most 4.19"
        in shown
    )
    json.dumps(plan, allow_nan=False)
    for changes, why in (
        ({"privacy": {"epsilon": "inf"}}, "releases no noisy vote"),
        (
            {"method": {"guidance": "kernel"}},
            "a whole run is attacked by the votes of private rows",
        ),
    ):
        with pytest.raises(ConfigError, match=why):
            plan_whole_run(config_of(tmp_path, SMALL | changes), WHOLE)


def test_rows_lie_in_the_private_zone_with_the_included_canaries_and_cleaning_finds_leftovers(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.storage.retention import LEFTOVERS, state_files

    seen: dict[str, Any] = {}

    def execute(wasp: WaspConfig, folder: Path) -> str:
        seen.update(rows=pd.read_parquet(wasp.private.path), path=Path(wasp.private.path))
        seen["kinds"] = {file.kind for file in state_files(tmp_path / "home")}
        raise AuditError("stopped")

    made: list[Any] = []
    make = whole_run.make_canaries
    monkeypatch.setattr(whole_run, "make_canaries", lambda *args: made.extend(make(*args)) or made)
    monkeypatch.setattr(whole_run, "_execute", execute)
    with pytest.raises(AuditError, match="stopped"):
        attack_whole_run(small, WHOLE, tmp_path / "home")
    assert seen["path"].is_relative_to(tmp_path / "home" / "private")
    assert seen["kinds"] == {LEFTOVERS}
    texts = set(seen["rows"]["text"])
    assert {canary.text for canary in made if canary.included} < texts
    assert not {canary.text for canary in made if not canary.included} & texts
    assert set(pd.read_parquet(DESK / "private.parquet")["text"]) < texts
