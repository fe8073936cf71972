"""Audits reach gate, card and officer: red stops an export, a missing audit is reported, and so is one that passed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import ArtifactError, AuditError
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from flows.catalog import find_flow
from flows.config.files import check_config
from flows.engine.audit_findings import AuditLine, audits_of_releases
from flows.engine.prepare import guarantee_of
from flows.engine.tools import open_ledger
from flows.publish.gate import require_no_red_audit
from flows.publish.ledger_page import collect, render
from flows.runtime.stores import open_artifacts
from tasks.attacks.attack import Attack
from tasks.private.parties.promise import Parties, SharedNoise, shared_charge
from tasks.private.release import AuditCase
from tests.support.ledgers import charge
from tests.support.runs.pipeline import FURTHER, METHODS, SMALL, Pipeline, written


@pytest.fixture
def run_id(whole_run: tuple[Pipeline, dict[str, Any]]) -> str:
    return str(whole_run[1]["run_id"])


@pytest.fixture
def copy(whole_run: tuple[Pipeline, dict[str, Any]], tmp_path: Path) -> Pipeline:
    """The state folder of the finished run, to be audited and exported."""
    return whole_run[0].copied(tmp_path / "home")


def audit(pipeline: Pipeline) -> dict[str, Any]:
    """Audit the configuration that the run had."""
    run = written(pipeline.home.parent / "run.yaml", SMALL)
    return pipeline.answer("audit", "--config", str(run), "--trials", "120")


def test_an_export_without_an_audit_goes_on_and_says_so(
    copy: Pipeline, run_id: str, tmp_path: Path
) -> None:
    assert copy.answer("export", run_id, str(tmp_path / "out"))["audited"] is False
    assert "Never audited: votes" in (tmp_path / "out" / "README.md").read_text()
    message = json.loads((tmp_path / "out" / "manifest.json").read_text())["audit"]
    assert message == {"done": False, "newest": [], "never": ["votes"]}
    assert "Never audited: votes" in (copy.home / "runs" / run_id / "report.html").read_text()


@pytest.mark.statistical
def test_a_passed_audit_appears_on_the_card(copy: Pipeline, run_id: str, tmp_path: Path) -> None:
    result = audit(copy)
    assert copy.answer("export", run_id, str(tmp_path / "out"))["audited"] is True
    card = (tmp_path / "out" / "README.md").read_text()
    proven = result["mechanisms"][0]["epsilon_proven"]
    assert (
        f"wasp tight on {result['ended'][:10]}, at least epsilon {proven:.4f} of 4.0000 claimed"
        in card
    )
    message = json.loads((tmp_path / "out" / "manifest.json").read_text())["audit"]
    assert message["done"] is True
    assert [(entry["run_id"], entry["proven"]) for entry in message["newest"]] == [
        (result["run_id"], proven)
    ]


CLAIM = {
    "sides": 2,
    "shared": False,
    "noise_scale": 3.5,
    "sensitivity": 1.6,
    "releases": 4,
    "delta": 1e-5,
    "protects": "record",
    "adjacency": "add_remove",
}


def audited(home: Path, run_id: str, ended: str, passed: bool, **finding: Any) -> None:
    """Write what an audit leaves."""
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    book = {
        "run_id": run_id,
        "flow": "audit",
        "state": "done" if passed else "failed",
        "ended": ended,
    }
    (folder / "manifest.json").write_text(json.dumps(book))
    line = (
        CLAIM
        | {
            "mechanism": "wasp tight",
            "passed": passed,
            "epsilon_claimed": 4.0,
            "epsilon_proven": 2.0,
        }
        | finding
    )
    whole = line["mechanism"] == "whole run"
    result = {"mechanisms": [] if whole else [line], "pipeline": line if whole else None}
    (folder / "audit.json").write_text(json.dumps(result))


def audits_of(home: Path, **claim: Any) -> list[AuditLine]:
    """Return the audits of votes with this claim."""
    case = AuditCase("vote", charge(), CLAIM | claim)
    return list(audits_of_releases(open_artifacts(home), {"votes": [case]})[0])


def test_the_newest_audit_counts_of_each_kind(tmp_path: Path) -> None:
    audited(tmp_path, "audit-b", "2026-02-01", passed=False)
    audited(tmp_path, "audit-a", "2026-03-01", passed=True)
    assert [(entry.run_id, entry.passed) for entry in audits_of(tmp_path)] == [("audit-a", True)]
    audited(tmp_path, "audit-c", "2026-01-01", passed=False, mechanism="whole run")
    assert {(entry.run_id, entry.passed) for entry in audits_of(tmp_path)} == {
        ("audit-a", True),
        ("audit-c", False),
    }
    audited(tmp_path, "audit-d", "2026-01-02", passed=True, mechanism="whole run")
    assert all(entry.passed for entry in audits_of(tmp_path))
    (tmp_path / "runs" / "audit-a" / "audit.json").unlink()
    assert [(entry.run_id, entry.passed) for entry in audits_of(tmp_path)] == [
        ("audit-d", True),
        ("audit-b", False),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"noise_scale": 3.6},
        {"releases": 5},
        {"delta": 1e-6},
        {"protects": "person"},
        {"adjacency": "replace_one"},
        {"mechanism": "pe"},
        {"mechanism": "federated"},
        {"mechanism": "dp_kps density paper"},
    ],
)
def test_an_audit_of_something_else_is_not_about_the_run(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    audited(tmp_path, "audit-a", "2026-03-01", passed=False, **change)
    assert audits_of(tmp_path) == []


def test_equal_numbers_of_another_vote_are_not_about_the_run(tmp_path: Path) -> None:
    for run_id, mechanism in (
        ("audit-a", "pe"),
        ("audit-b", "whole run"),
        ("audit-c", "federated"),
    ):
        audited(tmp_path, run_id, "2026-03-01", passed=False, mechanism=mechanism)
    claims = [{"sides": 1}, {"sides": 2}, {"sides": 2, "shared": True}]
    audits = [{entry.run_id for entry in audits_of(tmp_path, **claim)} for claim in claims]
    assert audits == [{"audit-a"}, {"audit-b"}, {"audit-b", "audit-c"}]


@pytest.mark.parametrize("text", ["{", "[]", '{"mechanisms": [{}]}', '{"mechanisms": null}'])
def test_findings_that_cannot_be_read_stop_an_export(tmp_path: Path, text: str) -> None:
    audited(tmp_path, "audit-a", "2026-03-01", passed=True)
    (tmp_path / "runs" / "audit-a" / "audit.json").write_text(text)
    with pytest.raises(ArtifactError, match="audit.json cannot be read"):
        audits_of(tmp_path)


def manifest_of(flow: str) -> dict[str, Any]:
    """Return what the gate reads of a run."""
    votes = {"votes": 4} if flow == "wasp" else {}
    values = SMALL | {"method": METHODS[flow] | votes, **FURTHER.get(flow, {})}
    values |= {"class_balance": "tutor"} if flow == "kd_tutor" else {}
    config: Any = check_config(find_flow(flow).config, values, "the test")
    return {"run_id": f"{flow}-1", "flow": flow, "config": config.model_dump(mode="json")}


def attacks_on(manifest: dict[str, Any]) -> list[Attack]:
    """Return what an audit of the run's configuration attacks."""
    config: Any = check_config(find_flow(manifest["flow"]).config, manifest["config"], "the test")
    cases = [case for release in guarantee_of(config).releases for case in release.audits()]
    return [case.attack() for case in cases if case.attack]


@pytest.mark.parametrize("flow", ["wasp", "pre_text", "aug_pe", "dp_kps", "kd_tutor", "dp_sgd_gen"])
def test_a_red_audit_of_any_release_of_a_run_stops_its_export(flow: str, tmp_path: Path) -> None:
    """Each release brings the attack whose finding the gate recognises; findings of other flows are ignored."""
    manifest, artifacts = manifest_of(flow), open_artifacts(tmp_path)
    other = manifest_of("wasp" if flow in ("pre_text", "aug_pe") else "pre_text")
    audited(
        tmp_path,
        "audit-0",
        "2026-03-01",
        False,
        **attacks_on(other)[0].claims | {"epsilon_proven": 9.0},
    )
    attacks = attacks_on(manifest)
    audits, never = require_no_red_audit(artifacts, manifest)
    assert (audits, len(never) > 0) == ((), True)
    for number, attack in enumerate(attacks, start=1):
        audited(
            tmp_path,
            f"audit-{number}",
            f"2026-03-0{number + 1}",
            True,
            **attack.claims | {"epsilon_proven": 1.0},
        )
    audits, never = require_no_red_audit(artifacts, manifest)
    assert ([audit.run_id for audit in audits], never) == (
        [f"audit-{n + 1}" for n in range(len(attacks))],
        (),
    )
    for attack in attacks:
        shutil.rmtree(tmp_path / "runs" / "audit-red", ignore_errors=True)
        audited(
            tmp_path,
            "audit-red",
            "2026-03-09T10:00:00",
            False,
            **attack.claims | {"epsilon_proven": 9.0},
        )
        red = f"audit-red of 2026-03-09 is red.*{attack.noise.epsilon_exact:.4f} is claimed, at least 9.0000 was proven"
        with pytest.raises(AuditError, match=red):
            require_no_red_audit(artifacts, manifest)


@pytest.mark.parametrize("flow", ["wasp", "pre_text", "parties"])
def test_the_ledger_page_shows_the_audits_of_each_runs_own_mechanism(
    flow: str, tmp_path: Path
) -> None:
    manifest = manifest_of("wasp" if flow == "parties" else flow)
    (attack,) = attacks_on(manifest)
    noise = attack.noise
    charge = (
        shared_charge(SharedNoise(noise, Parties(4, 4, 1))) if flow == "parties" else noise.charge
    )
    book = open_ledger(tmp_path)
    book.register("desk", "fingerprint", ["0" * 64], "Ada")
    book.set_cap("desk", 9.0, noise.delta, "Ada", "agreed")
    charges = (charge,) * noise.releases
    book.reserve("desk", BudgetPlan("run", "wasp", noise.delta, charges), "Ada")
    for number in range(noise.releases):
        book.release_once(
            ReleaseRequest("desk", "run", f"vote-{number}", str(number), charge), lambda: b"noise"
        )
    for mechanism in ("wasp tight", "pe", "federated"):
        finding = attack.claims | {"epsilon_proven": 9.0, "mechanism": mechanism}
        audited(tmp_path, f"audit-{mechanism.split()[0]}", "2026-03-01", passed=False, **finding)
    page = collect(book, tmp_path, "desk")
    assert "<strong>RED</strong>" in render(page)
    shown = {audit["run_id"] for audit in page["runs"][0]["audits"]}
    own = {
        "wasp": {"audit-wasp"},
        "pre_text": {"audit-pe"},
        "parties": {"audit-wasp", "audit-federated"},
    }
    assert shown == own[flow]
