"""Find the audits about a run's noise in the state folder, for report, gate, dataset card and ledger page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.json_values import Json

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.interfaces.ledger import Charge
    from tasks.private.release import AuditCase

SAME = ("noise_scale", "sensitivity", "releases", "delta", "protects", "adjacency")
"""Values that must be equal in a run's votes and an audited mechanism for the audit to apply to the run."""
READ = ("mechanism", "passed", "epsilon_claimed", "epsilon_proven", *SAME)
"""Fields that are read from each finding."""
STEPS = ("steps", "sample_rate")
"""Fields of a finding about a training that must be equal in the run's training; its noise alone does not define it."""
SIDES = {"wasp": 2, "pe": 1, "federated": 2, "whole": 2}
"""Vote sides of each audited mechanism by the first word of its name: 2 for near and far, 1 for near only.

An audit applies to runs with the same sides; `federated` applies only to runs of several parties.
"""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """The newest audit of a noise: mechanism, claimed epsilon, proven lower bound."""

    run_id: str
    ended: str
    mechanism: str
    passed: bool
    claimed: float
    proven: float


def audits_of_releases(
    artifacts: Artifacts, releases: Mapping[str, Sequence[AuditCase]]
) -> tuple[tuple[AuditLine, ...], tuple[str, ...]]:
    """Return the newest audits of releases, and the names of the releases that were never audited.

    `releases`: by name, with the cases of each; a release without cases cannot have been audited. A passed audit of one
    kind does not replace an older failed audit of another kind. ArtifactError if findings are damaged.
    """
    findings = _findings(artifacts)
    audits: list[AuditLine] = []
    never = []
    for name, cases in releases.items():
        by_case = [_newest(findings, case) for case in cases]
        audits += [audit for lines in by_case for audit in lines]
        # One audited case of several does not make the release an audited one.
        if not by_case or not all(by_case):
            never.append(name)
    return tuple(audits), tuple(never)


def describe_audits(audits: Sequence[AuditLine], never: Sequence[str]) -> str:
    """Describe the newest audits of a run's noise, and the releases that were never audited."""
    sentences = []
    if audits:
        results = "; ".join(
            f"{audit.mechanism} on {audit.ended[:10]}, at least epsilon {audit.proven:.4f} of {audit.claimed:.4f} "
            f"claimed ({audit.run_id})"
            for audit in audits
        )
        passed = all(audit.passed for audit in audits)
        verdict = "at least one audit is RED"
        if passed:
            verdict = "no attack proved more than claimed"
        sentences.append(
            f"Audited; {verdict}: {results}. A passed attack proves nothing beyond itself."
        )
    if never:
        sentences.append(
            f"Never audited: {', '.join(never)}. The state folder contains no audit of this noise. "
            "Attack it, without any budget, with: wasp audit NAME"
        )
    return " ".join(sentences)


def _newest(findings: Sequence[tuple[Json, Json]], case: AuditCase) -> list[AuditLine]:
    """Return the newest finding of each kind of attack on the noise of a case."""
    # The findings are in the order of their audits: a later one replaces an earlier one of its kind.
    newest: dict[str, AuditLine] = {}
    for audit, finding in findings:
        name = finding["mechanism"]
        if case.claim is None:
            kind = " ".join(name.split()[:2])
            applies = kind == case.kind and _is_same_part(finding, case.charge)
        else:
            kind = name.split()[0]
            applies = _are_same_votes(kind, finding, case.claim)
        if applies:
            claimed = finding["epsilon_claimed"]
            proven = finding["epsilon_proven"]
            newest[kind] = AuditLine(
                audit["run_id"], audit["ended"], name, finding["passed"], claimed, proven
            )
    return list(newest.values())


def _is_same_part(finding: Mapping[str, Any], charge: Charge) -> bool:
    """Return whether a finding applies to a release.

    An audit attacks few terms, frequencies or queries, and its result holds for any number of them: only the ratio of
    noise scale to the contribution of a record matters.
    """
    same_kind = charge.mechanism.endswith(str(finding["noise"]))
    if charge.mechanism == "dp_sgd" and any(finding[name] != charge.event[name] for name in STEPS):
        return False
    ours = charge.noise_scale * finding["sensitivity"]
    theirs = finding["noise_scale"] * charge.sensitivity
    return (
        same_kind
        and charge.adjacency == finding["adjacency"]
        and math.isclose(ours, theirs, rel_tol=1e-4)
    )


def _are_same_votes(kind: str, finding: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    alike = SIDES.get(kind) == claim["sides"] and (kind != "federated" or bool(claim["shared"]))
    return alike and all(_is_equal(finding[name], claim[name]) for name in SAME)


def _is_equal(finding: object, claim: object) -> bool:
    # Equal up to rounding: an audit and a run derive their floats in separate computations.
    if isinstance(finding, float) and isinstance(claim, float | int):
        return math.isclose(finding, claim, rel_tol=1e-9)
    return finding == claim


def _findings(artifacts: Artifacts) -> list[tuple[Json, Json]]:
    """Return each finished audit with each of its findings, the oldest first."""
    audits = [
        run for run in artifacts.list_runs() if run.get("flow") == "audit" and run.get("ended")
    ]
    return [
        (audit, finding)
        for audit in sorted(audits, key=lambda run: str(run["ended"]))
        for finding in _mechanisms(artifacts, audit["run_id"])
    ]


def _mechanisms(artifacts: Artifacts, run_id: str) -> list[Json]:
    """Return the findings of one audit, the whole run last; empty for an audit that stopped early."""
    path = f"runs/{run_id}/audit.json"
    text = artifacts.read_text(path)
    if text is None:
        return []
    try:
        findings = json.loads(text)
        whole = findings.get("pipeline")
        lines = list(findings["mechanisms"])
        if whole:
            lines.append(whole)
        optional = dict.fromkeys(("noise", *STEPS), "")
        return [
            {name: line[name] for name in READ}
            | {name: line.get(name, value) for name, value in optional.items()}
            for line in lines
        ]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ArtifactError(
            f"{artifacts.where(path)} cannot be read ({type(error).__name__}: damaged, or of another version), so "
            "the result of the audit is unknown. Move the file away and run the audit again."
        ) from None
