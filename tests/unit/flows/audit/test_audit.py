"""The audit as a flow: it opens nothing, says what is proven beside what is claimed, and fails where that is more."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.utilities.callables import parameter_schema

from connectors.interfaces.errors import ConfigError
from flows.audit import text
from flows.audit.claims import attacks_of
from flows.audit.config import AuditConfig
from flows.audit.flow import audit
from flows.cli import commands
from flows.config.files import check_config, load_config
from flows.engine.prepare import make_noise
from flows.methods.wasp.config import WaspConfig
from tests.support.paths import ROOT
from tests.support.runs.audits import SABOTAGED, artifacts
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.served_flow import ask

HERE = ROOT / "deployments" / "configs" / "audit_here.yaml"
DEMO = ROOT / "deployments" / "configs" / "demo.yaml"
FEW = ["trials=100", "privacy.epsilon=8", "mechanisms=[wasp]"]
"""Enough to prove something: a bound of 0 is 5 standard deviations away."""


def sabotaged(pipeline: Pipeline, how: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", SABOTAGED, how, "run", "audit", "-c", str(HERE), "--json"]
    command += ["--set", "trials=120", "--set", "calibrations=[tight]", "--set", "mechanisms=[wasp]"]
    environment = pipeline.environment | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def test_a_sound_mechanism_passes_and_nothing_is_opened_or_spent(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = pipeline.call("run", "audit", "-c", str(HERE), *(f"--set={one}" for one in FEW), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    found = last_json(done.stdout)
    assert found["passed"] is True
    assert [one["calibration"] for one in found["mechanisms"]] == ["tight", "paper"]
    tight, paper = found["mechanisms"]
    claims = [one.noise.epsilon_exact for one in attacks_of(load_config(AuditConfig, HERE, FEW))]
    assert [tight["epsilon_claimed"], paper["epsilon_claimed"]] == claims
    for one in found["mechanisms"]:
        assert 0 <= one["epsilon_proven"] <= one["epsilon_claimed"]
        assert (one["fresh"], one["number_kept"], one["releases"]) == (True, True, 4)
    assert tight["epsilon_proven"] > 0
    assert json.loads(Path(found["audit"]).read_text()) == found
    assert not (pipeline.home / "ledger.db").exists()
    assert not [path for path in (pipeline.home / "private").rglob("*") if path.is_file()]
    assert "attack wasp tight" in done.stderr
    assert (Path(found["audit"]).parent / "audit-bounds.png").read_bytes().startswith(b"\x89PNG")

    shown = artifacts(pipeline.api, found["prefect_run_id"])
    table = json.loads(shown["audit"])
    assert [row["verdict"] for row in table] == ["passed", "passed"]
    assert float(table[0]["proven at least"]) == pytest.approx(tight["epsilon_proven"], abs=1e-4)
    assert "No attack proves more than is claimed" in shown["audit-verdict"]
    assert shown["audit-bounds"].startswith("data:image/png;base64,")

    monkeypatch.setenv("WASP_HOME", str(pipeline.home))
    listed = commands.runs()["runs"]
    assert [(one["run_id"], one["flow"], one["state"]) for one in listed] == [(found["run_id"], "audit", "done")]
    assert commands.show(found["run_id"])["summary"] == found
    page = Path(commands.report(found["run_id"])["report"]).read_text()
    assert page.count('<span class="as-planned">passed</span>') == 2
    assert "<h1>Audit passed</h1>" in page


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("how", "said"), [("weak", "epsilon 4.0000 is claimed, at least epsilon"), ("reused", "noise is not fresh")]
)
def test_a_sabotaged_mechanism_makes_the_run_red(pipeline: Pipeline, how: str, said: str) -> None:
    done = sabotaged(pipeline, how)
    assert done.returncode == 1, done.stderr[-3000:]
    assert said in done.stderr
    assert "The audit is red" in last_json(done.stdout)["message"]
    assert "Share nothing that was released" in done.stderr
    book = json.loads(next((pipeline.home / "runs").glob("*/manifest.json")).read_text())
    assert book["state"] == "failed"
    (run,) = ask(pipeline.api, "/flow_runs/filter", {"flow_runs": {"id": {"any_": [book["prefect_run_id"]]}}})
    state = run["state"]
    assert (state["type"], "The audit is red" in state["message"]) == ("FAILED", True)
    shown = artifacts(pipeline.api, book["prefect_run_id"])
    assert json.loads(shown["audit"])[0]["verdict"] == "RED"
    assert "RED" in pipeline.call("show", book["run_id"]).stdout
    assert "Audit is red" in (pipeline.home / "runs" / book["run_id"] / "report.html").read_text()


def test_the_plan_says_what_is_opened_spent_and_drawn() -> None:
    plan = commands.plan("audit", HERE, ["trials=500", "mechanisms=[wasp]"])
    words = text.plan(plan)
    assert plan["draws"] == 2 * 500 * 4 * 2
    assert "opens         nothing" in words
    assert "spends        no budget; no money" in words
    assert "8000 noisy releases" in words
    assert plan["mechanisms"][0]["epsilon_likely"] < 4.0
    more = commands.plan("audit", HERE, ["trials=20000"])
    assert more["mechanisms"][0]["epsilon_likely"] > plan["mechanisms"][0]["epsilon_likely"]


def test_all_mechanisms_are_planned_with_what_each_claims() -> None:
    plan = commands.plan("audit", HERE, [])
    claims = {one["mechanism"]: one for one in plan["mechanisms"]}
    assert list(claims) == [
        "guidance density", "wasp tight", "wasp paper", "large votes", "pe",
        "dp_kps vocabulary gaussian", "dp_kps density gaussian",
        "dp_kps vocabulary pure", "dp_kps density pure",
        "dp_kps vocabulary paper", "dp_kps density paper",
        "kd labels gaussian", "kd answers gaussian", "kd answers laplace", "kd checks gaussian",
        "dp_sgd training", "federated",
    ]  # fmt: skip
    assert (claims["pe"]["releases"], claims["pe"]["sensitivity"]) == (5, 1.0)
    assert {claims[name]["noise"] for name in claims if "pure" in name or name.endswith("y paper")} == {"laplace"}
    for part in ("vocabulary", "density"):
        assert claims[f"dp_kps {part} pure"]["epsilon_claimed"] == 2.0
        assert claims[f"dp_kps {part} gaussian"]["epsilon_claimed"] == pytest.approx(2.6945, abs=1e-4)
    printed = claims["dp_kps density paper"]
    assert printed["epsilon_stated"] == 2.0
    assert printed["epsilon_claimed"] == pytest.approx(10.0, rel=1e-3)
    assert (claims["federated"]["parties"], claims["federated"]["colluding"]) == (3, 1)
    assert (claims["dp_sgd training"]["noise"], claims["dp_sgd training"]["steps"]) == ("dp_sgd", 100)
    assert claims["kd labels gaussian"].pop("epsilon_likely") >= 0.0, "at 0.4 next to nothing can be proven"
    assert all(
        0 < one["epsilon_likely"] <= one["epsilon_claimed"] for one in claims.values() if "epsilon_likely" in one
    )


@pytest.mark.statistical
def test_the_parts_of_dp_kps_are_told_and_the_printed_density_is_called_no_guarantee(pipeline: Pipeline) -> None:
    few = ("trials=300", "mechanisms=[dp_kps]")
    done = pipeline.call("run", "audit", "-c", str(HERE), *(f"--set={one}" for one in few))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "dp_kps density paper: the printed epsilon 2.0000 is no guarantee for one record" in done.stdout
    assert "passed, stated is no guarantee" in done.stdout
    found = json.loads(next((pipeline.home / "runs").glob("*/audit.json")).read_text())
    printed = found["mechanisms"][-1]
    assert printed["epsilon_proven"] > printed["epsilon_stated"]
    assert all(one["epsilon_proven"] <= one["epsilon_claimed"] for one in found["mechanisms"])


def test_documents_are_not_persons() -> None:
    with pytest.raises(ConfigError, match="dp_kps protects documents"):
        attacks_of(AuditConfig.model_validate({"mechanisms": ["dp_kps"], "privacy": {"protects": "person"}}))


def test_the_numbers_of_a_wasp_configuration_are_audited(tmp_path: Path) -> None:
    for name in ("demo.yaml", "person_here.yaml"):
        (tmp_path / name).write_text(DEMO.with_name(name).read_text())
        (tmp_path / "audit.yaml").write_text(yaml.safe_dump({"wasp_config": name, "calibrations": ["tight"]}))
        config = load_config(AuditConfig, tmp_path / "audit.yaml")
        assert [one.noise for one in attacks_of(config)] == [make_noise(load_config(WaspConfig, DEMO.with_name(name)))]


def test_a_configuration_that_releases_nothing_cannot_be_audited(tmp_path: Path) -> None:
    values = yaml.safe_load(DEMO.read_text()) | {"method": {"guidance": "votes", "iterations": 1, "samples": 600}}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match="nothing to audit"):
        attacks_of(AuditConfig(wasp_config=str(tmp_path / "one.yaml")))


def test_rows_that_stay_closed_cannot_be_audited_and_open_ones_can(tmp_path: Path) -> None:
    values = yaml.safe_load(DEMO.read_text())
    named = {}
    for rows in (20, 60):
        values["private"]["declared_rows"] = rows
        (tmp_path / f"{rows}.yaml").write_text(yaml.safe_dump(values))
        named[rows] = AuditConfig(wasp_config=str(tmp_path / f"{rows}.yaml"))
    with pytest.raises(ConfigError, match="keeps its private rows closed"):
        attacks_of(named[20])
    assert [attack.name for attack in attacks_of(named[60])] == ["guidance density"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"trials": 1}, "trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"iterations": 1}, "iterations"),
        ({"calibrations": []}, "calibrations"),
        ({"calibrations": ["tight", "tight"]}, "at most once"),
        ({"privacy": {"epsilon": "inf"}}, "nothing to audit"),
        ({"mechanisms": []}, "mechanisms"),
        ({"mechanisms": ["kps"]}, "mechanisms"),
        ({"mechanisms": ["pe", "pe"]}, "at most once"),
        ({"keyphrases": {"settings": ["pure", "pure"]}}, "at most once"),
        ({"keyphrases": {"terms": 0}}, "keyphrases.terms"),
        ({"pipeline": {"canaries": 100, "guesses": 101}}, "cannot be more than canaries"),
        ({"pipeline": {"confidence": 0.5}}, "pipeline.confidence"),
        ({"wasp_config": "demo.yaml", "votes": 4}, "remove votes"),
        ({"trails": 100}, "did you mean 'trials'"),
    ],
)
def test_what_cannot_be_audited_is_refused_with_its_field(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_config(AuditConfig, values, "the test")


def test_every_field_of_the_form_is_explained() -> None:
    schema = parameter_schema(audit).model_dump()
    fields = schema["definitions"]["AuditConfig"]["properties"]
    assert list(fields) == list(AuditConfig.model_fields)
    assert all(len(about.get("description", "")) > 10 or "$ref" in about for about in fields.values())


@pytest.mark.parametrize(
    "command",
    [commands.resume, commands.abandon, commands.push, lambda run_id: commands.export(run_id, Path())],
)
def test_what_needs_rows_is_refused_for_an_audit(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_HOME", str(tmp_path))
    folder = tmp_path / "runs" / "audit-e4-x"
    folder.mkdir(parents=True)
    book = {"run_id": "audit-e4-x", "flow": "audit", "state": "done", "started": "2026-01-01T00:00:00+00:00"}
    (folder / "manifest.json").write_text(json.dumps(book))
    with pytest.raises(ConfigError, match="start a new one with: wasp run audit"):
        command("audit-e4-x")
