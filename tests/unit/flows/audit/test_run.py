"""The audit as a flow: it opens nothing, compares proven with claimed epsilon, and fails where more is proven."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from flows.audit import text
from flows.audit.config import AuditConfig
from flows.audit.run import attacks_of
from flows.audit.whole_run import whole_run_config
from flows.cli import start, stored_runs
from flows.config.files import check_config, load_config
from flows.engine.prepare import guarantee_of
from flows.methods.wasp.config import WaspConfig
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.served_flow import artifacts, call_api

CONFIGS = ROOT / "deployments" / "configs"
VOTES = ["--set", "method.guidance=votes", "--trials", "120", "--json"]
RELEASES = {
    "demo": ["guidance density"],
    "person_here": ["wasp tight"],
    "dp_kps_here": ["dp_kps vocabulary gaussian", "dp_kps density gaussian"],
    "kd_tutor_here": ["kd labels gaussian", "kd answers gaussian"],
    "dp_sgd_gen_here": ["dp_sgd training"],
    "aug_pe_here": ["pe"],
}


def test_a_sound_mechanism_passes_and_nothing_is_opened_or_spent(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = pipeline.call("audit", "demo", "--set", "privacy.epsilon=8", *VOTES, code=0)
    result = last_json(done.stdout)
    (votes,) = result["mechanisms"]
    assert votes["epsilon_claimed"] == pytest.approx(8.0, abs=1e-3)
    assert 0 < votes["epsilon_proven"] <= votes["epsilon_claimed"]
    assert (votes["passed"], votes["fresh"], votes["number_kept"], votes["releases"]) == (
        True,
        True,
        True,
        4,
    )
    assert json.loads(Path(result["audit"]).read_text()) == result
    assert not (pipeline.home / "ledger.db").exists()
    assert not [path for path in (pipeline.home / "private").rglob("*") if path.is_file()]
    assert "attack wasp tight" in done.stderr

    shown = artifacts(pipeline.api, result["prefect_run_id"])
    assert f"{votes['epsilon_proven']:.4f}" in shown["audit"]["data"]
    assert "No attack proves more than is claimed" in shown["audit"]["data"]

    monkeypatch.setenv("WASP_HOME", str(pipeline.home))
    listed = stored_runs.runs()["runs"]
    assert [(run["run_id"], run["flow"], run["state"]) for run in listed] == [
        (result["run_id"], "audit", "done")
    ]
    assert stored_runs.show(result["run_id"])["summary"] == result
    page = Path(stored_runs.report(result["run_id"])["report"]).read_text()
    assert "<h1>Audit passed</h1>" in page


SABOTAGE = """
from dataclasses import replace
from tasks.private.votes import step as release
whole, kept = release.add_noise, {}
weak = lambda raw, candidates, noise: whole(raw, candidates, replace(noise, sigma=noise.sigma / 4))
reused = lambda raw, *rest: kept.setdefault(raw.counts.tobytes(), whole(raw, *rest))
release.add_noise = """


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("how", "message"),
    [("weak", "epsilon 4.0000 is claimed, at least epsilon"), ("reused", "noise is not fresh")],
)
def test_a_sabotaged_mechanism_makes_the_run_red(
    pipeline: Pipeline, how: str, message: str
) -> None:
    done = pipeline.patched(SABOTAGE + how).call("audit", "demo", *VOTES)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr[-3000:]
    assert "The audit is red" in last_json(done.stdout)["message"]
    assert "Share nothing that was released" in done.stderr
    book = json.loads(next((pipeline.home / "runs").glob("*/manifest.json")).read_text())
    assert book["state"] == "failed"
    (run,) = call_api(
        pipeline.api, "/flow_runs/filter", {"flow_runs": {"id": {"any_": [book["prefect_run_id"]]}}}
    )
    assert (run["state"]["type"], "The audit is red" in run["state"]["message"]) == ("FAILED", True)
    assert "RED" in artifacts(pipeline.api, book["prefect_run_id"])["audit"]["data"]
    assert "RED" in pipeline.call("show", book["run_id"]).stdout
    assert "Audit is red" in (pipeline.home / "runs" / book["run_id"] / "report.html").read_text()


@pytest.mark.parametrize("name", RELEASES)
def test_each_release_of_a_run_brings_its_attack(name: str, home: Path) -> None:
    config = AuditConfig(config=name, trials=500)
    plan = start.audit(name, trials=500, plan=True)
    assert [line["mechanism"] for line in plan["mechanisms"]] == RELEASES[name]
    assert plan["draws"] == sum(2 * 500 * line["releases"] for line in plan["mechanisms"])
    for attack, line in zip(attacks_of(config), plan["mechanisms"], strict=True):
        assert attack.claims == line
        assert 0 < line["epsilon_claimed"] <= line["epsilon_stated"] * (1 + 1e-6)
    shown = text.plan(plan)
    assert "opens         nothing" in shown
    assert "spends        no budget; no money" in shown


def test_a_file_of_the_audit_is_read_as_a_run_of_it_reads_it(home: Path) -> None:
    file, changes = CONFIGS / "audit_here.yaml", ["config=votes"]
    audited = start.audit(config=file, set_=changes, trials=60, plan=True)
    assert audited == start.plan("audit", file, [*changes, "trials=60"])


def test_the_attacked_noise_is_that_of_the_run(home: Path, tmp_path: Path) -> None:
    (tmp_path / "person_here.yaml").write_text((CONFIGS / "person_here.yaml").read_text())
    (tmp_path / "audit.yaml").write_text("config: person_here.yaml\nchanges: [privacy.epsilon=2]\n")
    config = load_config(AuditConfig, tmp_path / "audit.yaml")
    expected = guarantee_of(
        load_config(WaspConfig, CONFIGS / "person_here.yaml", ["privacy.epsilon=2"])
    ).noise
    assert [attack.noise for attack in attacks_of(config)] == [expected]


@pytest.mark.parametrize(
    "changes",
    [
        ["method.guidance=votes", "method.iterations=1"],
        ["privacy.epsilon=inf"],
        ["private.declared_rows=20"],
    ],
    ids=["no vote", "no noise", "rows stay closed"],
)
def test_a_configuration_that_releases_nothing_cannot_be_audited(
    changes: list[str], home: Path
) -> None:
    with pytest.raises(
        ConfigError, match="demo: a run with this configuration releases nothing with noise"
    ):
        attacks_of(AuditConfig(config="demo", changes=changes))


def test_an_audit_of_a_whole_run_with_too_few_texts_is_refused_before_it_starts() -> None:
    changes = ["method.guidance=votes", "method.samples=8"]
    with pytest.raises(ConfigError, match=r"method.samples: 8 texts"):
        whole_run_config(AuditConfig(config="demo", changes=changes))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "config: is missing"),
        ({"trials": 1}, "trials"),
        ({"pipeline": {"canaries": 10}}, "pipeline.canaries"),
        ({"trails": 100}, "did you mean 'trials'"),
    ],
)
def test_what_cannot_be_audited_is_refused_with_its_field(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(AuditConfig, ({"config": "demo"} if values else {}) | values, "the test")


def test_another_flow_or_an_unknown_configuration_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text(yaml.safe_dump({"flow": "compare"}))
    for name, message in (
        (str(tmp_path / "matrix.yaml"), "Unknown method 'compare'"),
        ("absent", "absent"),
    ):
        with pytest.raises(ConfigError, match=message):
            attacks_of(AuditConfig(config=name))


@pytest.mark.parametrize(
    "command",
    [start.resume, stored_runs.abandon, lambda run_id: stored_runs.export(run_id, Path())],
)
def test_what_needs_rows_is_refused_for_an_audit(command: Any, home: Path) -> None:
    folder = home / "runs" / "audit-e4-x"
    folder.mkdir(parents=True)
    book = {
        "run_id": "audit-e4-x",
        "flow": "audit",
        "state": "done",
        "started": "2026-01-01T00:00:00+00:00",
    }
    (folder / "manifest.json").write_text(json.dumps(book))
    with pytest.raises(ConfigError, match="start a new one with: wasp run audit"):
        command("audit-e4-x")
    with pytest.raises(ConfigError, match="no run yet. Start one with: wasp run NAME"):
        command("latest")
