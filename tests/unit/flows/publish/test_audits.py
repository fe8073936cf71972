"""Audits reach gate, card and officer: red stops an export, no audit is told, and so is one that passed."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.interfaces.errors import ArtifactError, AuditError
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from flows.audit.claims import attacks_of, claims
from flows.audit.config import AuditConfig
from flows.catalog import find_flow
from flows.config.files import check_config
from flows.engine.prepare import make_noise
from flows.engine.tools import open_ledger
from flows.methods.wasp.config import WaspConfig
from flows.publish.audits import require_no_red_audit
from flows.publish.ledger_page import collect
from flows.runtime.stores import open_artifacts
from flows.storage.audit_findings import audits_of
from tasks.accounting.federated import Parties, shared, shared_charge
from tasks.accounting.votes import Noise
from tasks.audit.attacks import Attack
from tasks.reporting.ledger_page import LANGUAGES, render
from tests.support.paths import ROOT
from tests.support.runs.audits import SABOTAGED
from tests.support.runs.pipeline import METHODS, SMALL, Pipeline, last_json


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, str]:
    pipeline = Pipeline(tmp_path_factory.mktemp("audited") / "home", api)
    return pipeline, str(pipeline.run()["run_id"])


@pytest.fixture
def copy(finished: tuple[Pipeline, str], tmp_path: Path) -> Pipeline:
    """The state folder of the finished run, to be audited."""
    shutil.copytree(finished[0].home, tmp_path / "home")
    return Pipeline(tmp_path / "home", finished[0].api)


def audit_file(pipeline: Pipeline, **changes: Any) -> Path:
    """Write the audit of the configuration that the run had, with `changes` of that configuration."""
    run = pipeline.home.parent / "run.yaml"
    run.write_text(yaml.safe_dump(SMALL | changes))
    path = pipeline.home.parent / "audit.yaml"
    path.write_text(yaml.safe_dump({"wasp_config": str(run), "calibrations": ["tight"], "trials": 120}))
    return path


def audit(pipeline: Pipeline, **changes: Any) -> dict[str, Any]:
    done = pipeline.call("run", "audit", "-c", str(audit_file(pipeline, **changes)), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    return last_json(done.stdout)


def red_audit(pipeline: Pipeline, **changes: Any) -> str:
    command = [sys.executable, "-c", SABOTAGED, "weak", "run", "audit", "-c", str(audit_file(pipeline, **changes))]
    environment = pipeline.environment | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr[-3000:]
    books = [json.loads(path.read_text()) for path in (pipeline.home / "runs").glob("audit-*/manifest.json")]
    return str(max(books, key=lambda book: book["started"])["run_id"])


def test_an_export_without_an_audit_goes_on_and_says_so(finished: tuple[Pipeline, str], tmp_path: Path) -> None:
    pipeline, run_id = finished
    done = pipeline.call("export", run_id, str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    assert last_json(done.stdout)["audited"] is False
    assert "Never audited: votes" in (tmp_path / "out" / "README.md").read_text()
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())["audit"]
    assert told == {"done": False, "newest": [], "never": ["votes"]}
    assert "Never audited: votes" in (pipeline.home / "runs" / run_id / "report.html").read_text()


@pytest.mark.statistical
def test_a_passed_audit_stands_on_the_card_and_a_later_red_one_stops_the_export(
    finished: tuple[Pipeline, str], copy: Pipeline, tmp_path: Path
) -> None:
    run_id, found = finished[1], audit(copy)
    done = copy.call("export", run_id, str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    assert last_json(done.stdout)["audited"] is True
    card = (tmp_path / "out" / "README.md").read_text()
    proven = found["mechanisms"][0]["epsilon_proven"]
    assert f"wasp tight on {found['ended'][:10]}, at least epsilon {proven:.4f} of 4.0000 claimed" in card
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())["audit"]
    assert told["done"] is True
    assert [(one["run_id"], one["proven"]) for one in told["newest"]] == [(found["run_id"], proven)]

    red = red_audit(copy)
    refused = copy.call("export", run_id, str(tmp_path / "again"))
    assert refused.returncode == 1
    assert f"audit {red}" in refused.stderr
    assert "is red for the noise of this run" in refused.stderr
    assert "start a new run" in refused.stderr
    assert not (tmp_path / "again").exists()

    page = collect(open_ledger(copy.home), copy.home, "desk")
    assert [(one.run_id, one.passed) for one in page.runs[0].audits] == [(red, False)]
    for language in LANGUAGES:
        assert red in render(page, language)
    assert "<strong>RED</strong>" in render(page, "en")


@pytest.mark.statistical
def test_a_red_audit_of_other_noise_stops_nothing(
    finished: tuple[Pipeline, str], copy: Pipeline, tmp_path: Path
) -> None:
    red_audit(copy, privacy={"epsilon": 3.0})
    done = copy.call("export", finished[1], str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    assert last_json(done.stdout)["audited"] is False


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


def written(home: Path, run_id: str, ended: str, passed: bool, **finding: Any) -> None:
    """Write what an audit leaves."""
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    book = {"run_id": run_id, "flow": "audit", "state": "done" if passed else "failed", "ended": ended}
    (folder / "manifest.json").write_text(json.dumps(book))
    line = (
        CLAIM | {"mechanism": "wasp tight", "passed": passed, "epsilon_claimed": 4.0, "epsilon_proven": 2.0} | finding
    )
    whole = line["mechanism"] == "whole run"
    found = {"mechanisms": [] if whole else [line], "pipeline": line if whole else None}
    (folder / "audit.json").write_text(json.dumps(found))


def test_the_newest_audit_counts_of_each_kind(tmp_path: Path) -> None:
    written(tmp_path, "audit-b", "2026-02-01", passed=False)
    written(tmp_path, "audit-a", "2026-03-01", passed=True)
    artifacts = open_artifacts(tmp_path)
    assert [(one.run_id, one.passed) for one in audits_of(artifacts, CLAIM)] == [("audit-a", True)]
    written(tmp_path, "audit-c", "2026-01-01", passed=False, mechanism="whole run")
    found = audits_of(artifacts, CLAIM)
    assert [(one.run_id, one.passed) for one in found] == [("audit-a", True), ("audit-c", False)]
    written(tmp_path, "audit-d", "2026-01-02", passed=True, mechanism="whole run")
    assert all(one.passed for one in audits_of(artifacts, CLAIM))


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
def test_an_audit_of_something_else_is_not_about_the_run(tmp_path: Path, change: dict[str, Any]) -> None:
    written(tmp_path, "audit-a", "2026-03-01", passed=False, **change)
    assert audits_of(open_artifacts(tmp_path), CLAIM) == ()


def test_an_audit_that_ended_before_it_found_anything_says_nothing(tmp_path: Path) -> None:
    written(tmp_path, "audit-a", "2026-03-01", passed=True)
    (tmp_path / "runs" / "audit-a" / "audit.json").unlink()
    assert audits_of(open_artifacts(tmp_path), CLAIM) == ()


@pytest.mark.parametrize("text", ["{", "[]", '{"mechanisms": [{}]}', '{"mechanisms": null}'])
def test_findings_that_cannot_be_read_stop_an_export(tmp_path: Path, text: str) -> None:
    written(tmp_path, "audit-a", "2026-03-01", passed=True)
    (tmp_path / "runs" / "audit-a" / "audit.json").write_text(text)
    with pytest.raises(ArtifactError, match="audit.json cannot be read"):
        audits_of(open_artifacts(tmp_path), CLAIM)


def finished_run(flow: str) -> tuple[dict[str, Any], Noise]:
    """Return what the gate reads of a run, and its noise."""
    votes = {"votes": 4} if flow == "wasp" else {}
    config: Any = check_config(find_flow(flow).config, SMALL | {"method": METHODS[flow] | votes}, "the test")
    return {"run_id": f"{flow}-1", "flow": flow, "config": config.model_dump(mode="json")}, make_noise(config)


def audited(mechanism: str, noise: Noise) -> dict[str, Any]:
    """Return what an audit of one mechanism says about a run that releases as often as `noise`."""
    rounds = noise.releases + (mechanism == "wasp")
    config = AuditConfig(mechanisms=[mechanism], calibrations=["tight"], iterations=rounds, votes=4)  # type: ignore[list-item]
    (attack,) = attacks_of(config)
    return claims(attack) | {"epsilon_proven": 9.0}


@pytest.mark.parametrize(
    ("flow", "own", "other"), [("wasp", "wasp", "pe"), ("pre_text", "pe", "wasp"), ("aug_pe", "pe", "wasp")]
)
def test_a_red_audit_stops_the_flows_whose_rows_vote_as_its_mechanism_does(
    flow: str, own: str, other: str, tmp_path: Path
) -> None:
    book, noise = finished_run(flow)
    written(tmp_path, "audit-other", "2026-03-01", passed=False, **audited(other, noise))
    written(tmp_path, "audit-own", "2026-03-02", passed=True, **audited(own, noise))
    artifacts = open_artifacts(tmp_path)
    assert [one.run_id for one in require_no_red_audit(artifacts, book)[0]] == ["audit-own"]
    written(tmp_path, "audit-red", "2026-03-03", passed=False, **audited(own, noise))
    with pytest.raises(AuditError, match=f"audit-red of 2026-03-03 is red.*{own}"):
        require_no_red_audit(artifacts, book)


def test_equal_numbers_of_another_vote_are_not_about_the_run(tmp_path: Path) -> None:
    written(tmp_path, "audit-a", "2026-03-01", passed=False, mechanism="pe")
    written(tmp_path, "audit-b", "2026-03-01", passed=False, mechanism="whole run")
    written(tmp_path, "audit-c", "2026-03-01", passed=False, mechanism="federated")
    about = [{"sides": 1, "shared": False}, {"sides": 2, "shared": False}, {"sides": 2, "shared": True}]
    found = [audits_of(open_artifacts(tmp_path), CLAIM | votes) for votes in about]
    assert [[one.run_id for one in some] for some in found] == [["audit-a"], ["audit-b"], ["audit-c", "audit-b"]]


@pytest.mark.parametrize("flow", ["wasp", "pre_text", "aug_pe"])
def test_the_officers_page_shows_the_audits_of_each_runs_own_mechanism(flow: str, tmp_path: Path) -> None:
    _, noise = finished_run(flow)
    book = open_ledger(tmp_path)
    book.register("desk", "fingerprint", ["0" * 64], "Ada")
    book.set_cap("desk", 9.0, noise.delta, "Ada", "agreed")
    charges = (noise.charge,) * noise.releases
    book.reserve("desk", BudgetPlan("run", flow, noise.delta, charges), "Ada")
    for number, charge in enumerate(charges):
        book.release_once(ReleaseRequest("desk", "run", f"vote-{number}", str(number), charge), lambda: b"noise")
    for mechanism in ("wasp", "pe"):
        written(tmp_path, f"audit-{mechanism}", "2026-03-01", passed=False, **audited(mechanism, noise))
    own = "wasp" if flow == "wasp" else "pe"
    shown = collect(book, tmp_path, "desk").runs[0].audits
    assert [(one.run_id, one.passed) for one in shown] == [(f"audit-{own}", False)]


def test_a_partys_page_shows_the_audits_of_sums_as_well(tmp_path: Path) -> None:
    _, noise = finished_run("wasp")
    charge = shared_charge(shared(noise, Parties(4, 4, 1)))
    book = open_ledger(tmp_path)
    book.register("desk", "fingerprint", ["0" * 64], "Ada")
    book.set_cap("desk", 9.0, noise.delta, "Ada", "agreed")
    book.reserve("desk", BudgetPlan("run", "wasp", noise.delta, (charge,) * noise.releases), "Ada")
    for number in range(noise.releases):
        book.release_once(ReleaseRequest("desk", "run", f"vote-{number}", str(number), charge), lambda: b"noise")
    written(tmp_path, "audit-sum", "2026-03-01", passed=True, **audited("wasp", noise) | {"mechanism": "federated"})
    written(tmp_path, "audit-vote", "2026-03-01", passed=True, **audited("wasp", noise))
    shown = collect(book, tmp_path, "desk").runs[0].audits
    assert [one.run_id for one in shown] == ["audit-vote", "audit-sum"]


def test_the_refusal_names_the_audit_and_what_was_proven(tmp_path: Path) -> None:
    config = check_config(WaspConfig, SMALL, "the test")
    claim = claims(Attack("wasp tight", make_noise(config), 1, 0.9))
    written(tmp_path, "audit-a", "2026-03-01T10:00:00", passed=False, **(claim | {"epsilon_proven": 9.0}))
    book = {"run_id": "run", "flow": "wasp", "config": config.model_dump(mode="json")}
    with pytest.raises(AuditError, match="audit-a of 2026-03-01 is red.*4.0000 is claimed, at least 9.0000 was proven"):
        require_no_red_audit(open_artifacts(tmp_path), book)


def test_an_audit_of_a_part_of_dp_kps_is_found_by_its_noise_for_a_document(tmp_path: Path) -> None:
    from flows.audit.claims import claims
    from flows.config.files import load_config
    from flows.engine.prepare import make_noise
    from flows.methods.dp_kps.config import DpKpsConfig
    from tasks.accounting.keyphrases import calibrate_part
    from tasks.audit.attacks import Attack

    config = load_config(DpKpsConfig, ROOT / "deployments/configs/dp_kps_here.yaml")
    book = {"run_id": "run", "flow": "dp_kps", "config": config.model_dump(mode="json")}
    artifacts = open_artifacts(tmp_path)
    assert require_no_red_audit(artifacts, book)[0] == ()
    vocabulary, density = make_noise(config).parts
    few = calibrate_part(replace(density.privacy, frequencies=1))
    told = claims(Attack("dp_kps density gaussian", few, 1, 0.9))
    written(tmp_path, "audit-a", "2026-03-01", passed=True, **(told | {"epsilon_proven": 1.0}))
    assert [one.run_id for one in require_no_red_audit(artifacts, book)[0]] == ["audit-a"]
    other = calibrate_part(replace(density.privacy, epsilon=1.0, frequencies=1))
    told = claims(Attack("dp_kps density gaussian", other, 1, 0.9))
    written(tmp_path, "audit-b", "2026-03-02", passed=False, **(told | {"epsilon_proven": 9.0}))
    assert [one.run_id for one in require_no_red_audit(artifacts, book)[0]] == ["audit-a"]
    few = calibrate_part(replace(vocabulary.privacy, terms=1))
    told = claims(Attack("dp_kps vocabulary gaussian", few, 1, 0.9))
    written(tmp_path, "audit-c", "2026-03-03", passed=False, **(told | {"epsilon_proven": 9.0}))
    with pytest.raises(AuditError, match="audit-c of 2026-03-03 is red"):
        require_no_red_audit(artifacts, book)


def test_an_audit_of_teachers_is_found_by_its_noise_for_a_row_whatever_the_number_of_queries(tmp_path: Path) -> None:
    from flows.audit.claims import claims
    from flows.config.files import load_config
    from flows.engine.prepare import make_noise
    from flows.methods.kd_tutor.config import KdTutorConfig
    from tasks.accounting.teachers import calibrate_part
    from tasks.audit.attacks import Attack

    config = load_config(KdTutorConfig, ROOT / "deployments/configs/kd_tutor_here.yaml")
    book = {"run_id": "run", "flow": "kd_tutor", "config": config.model_dump(mode="json")}
    artifacts = open_artifacts(tmp_path)
    assert require_no_red_audit(artifacts, book)[0] == ()
    labels, answers = make_noise(config).beside
    few = calibrate_part(replace(answers.privacy, numbers=5))
    told = claims(Attack("kd answers gaussian", few, 1, 0.9))
    written(tmp_path, "audit-a", "2026-03-01", passed=True, **(told | {"epsilon_proven": 1.0}))
    assert [one.run_id for one in require_no_red_audit(artifacts, book)[0]] == ["audit-a"]
    told = claims(Attack("kd labels gaussian", labels, 1, 0.9))
    written(tmp_path, "audit-b", "2026-03-02", passed=False, **(told | {"epsilon_proven": 9.0}))
    with pytest.raises(AuditError, match="audit-b of 2026-03-02 is red"):
        require_no_red_audit(artifacts, book)
