"""Find the audits about a run's noise in the state folder, for report, gate, dataset card and ledger page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.ledger import Charge
from tasks.reporting.ledger_page_model import AuditLine

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts

SAME = ("noise_scale", "sensitivity", "releases", "delta", "protects", "adjacency")
"""Values that must be equal in a run and an audited mechanism for the audit to apply to the run."""

READ = ("mechanism", "passed", "epsilon_claimed", "epsilon_proven", *SAME)
"""Fields that are read from each finding."""

STEPS = ("steps", "sample_rate")
"""Fields of a finding about a training that must be equal in the run's training; its noise alone does not define it."""

SIDES = {"wasp": 2, "pe": 1, "federated": 2, "whole": 2}
"""Vote sides of each audited mechanism by the first word of its name: 2 for near and far, 1 for near only.

An audit applies to runs with the same sides; `federated` applies only to runs of several parties. Audits of a DP-KPS
part or of a density apply to no vote.
"""


def audits_of(artifacts: Artifacts, claim: Mapping[str, Any]) -> tuple[AuditLine, ...]:
    """Return the newest vote, party-sum and whole-run audits of `claim`'s noise.

    `claim`: the values of `SAME`, the `sides` of the run's vote, and `shared`: several parties voted. A passed audit of
    one kind does not replace an older failed audit of another kind. ArtifactError if findings are damaged.
    """

    def kind_of(finding: Mapping[str, Any]) -> str | None:
        kind = finding["mechanism"].split()[0]
        return kind if _votes_alike(kind, claim) and same_noise(finding, claim) else None

    return _newest(artifacts, kind_of, tuple(SIDES))


def audits_of_parts(artifacts: Artifacts, charges: Sequence[tuple[str, Charge]]) -> tuple[AuditLine, ...]:
    """Return the newest audit of each non-vote release with the noise of its charge.

    `charges`: (kind of audit, charge).

    An audit attacks few terms and frequencies, and its result holds for any number of them: only the ratio of noise
    scale to the contribution of a document matters.
    """
    by_kind = dict(charges)

    def kind_of(finding: Mapping[str, Any]) -> str | None:
        kind = " ".join(finding["mechanism"].split()[:2])
        charge = by_kind.get(kind)
        return kind if charge is not None and _same_part(finding, charge) else None

    return _newest(artifacts, kind_of, tuple(by_kind))


class Case(Protocol):
    """An audit of a release (`flows.engine.method.AuditCase`)."""

    @property
    def kind(self) -> str:
        """First two words of the mechanism's name in the findings."""

    @property
    def charge(self) -> Charge:
        """Charge of the release."""

    @property
    def claim(self) -> Mapping[str, Any] | None:
        """Numbers that the finding of a vote must match; None for other releases."""


def audits_of_releases(
    artifacts: Artifacts, releases: Mapping[str, Sequence[Case]]
) -> tuple[tuple[AuditLine, ...], tuple[str, ...]]:
    """Return the newest audits of releases, and the names of the releases that were never audited.

    `releases`: by name, with the cases of each; a release without cases cannot have been audited.
    """
    audits: tuple[AuditLine, ...] = ()
    never = []
    for name, cases in releases.items():
        by_case = [audits_of_case(artifacts, case) for case in cases]
        audits += tuple(audit for lines in by_case for audit in lines)
        never += [name] if not by_case or not all(by_case) else []
    return audits, tuple(never)


def audits_of_case(artifacts: Artifacts, case: Case) -> tuple[AuditLine, ...]:
    """Return the newest audits of one case."""
    if case.claim is not None:
        return audits_of(artifacts, case.claim)
    return audits_of_parts(artifacts, [(case.kind, case.charge)])


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
        verdict = "no attack proved more than claimed" if passed else "at least one audit is RED"
        sentences.append(f"Audited; {verdict}: {results}. A passed attack proves nothing beyond itself.")
    if never:
        sentences.append(f"Never audited: {', '.join(never)}. The state folder contains no audit of this noise.")
    return " ".join(sentences)


def _same_part(finding: Mapping[str, Any], charge: Charge) -> bool:
    same_kind = charge.mechanism.endswith(str(finding["noise"]))
    if charge.mechanism == "dp_sgd" and any(finding[name] != charge.event[name] for name in STEPS):
        return False
    ours, theirs = charge.noise_scale / charge.sensitivity, finding["noise_scale"] / finding["sensitivity"]
    return same_kind and charge.adjacency == finding["adjacency"] and math.isclose(ours, theirs, rel_tol=1e-4)


def _newest(
    artifacts: Artifacts, kind_of: Callable[[Mapping[str, Any]], str | None], kinds: Sequence[str]
) -> tuple[AuditLine, ...]:
    """Return the newest finding of each kind.

    `kind_of` returns None for findings about other noise.
    """
    newest: dict[str, AuditLine] = {}
    audits = [run for run in artifacts.list_runs() if run.get("flow") == "audit" and run.get("ended")]
    for audit in sorted(audits, key=lambda run: str(run["ended"])):
        for finding in _mechanisms(artifacts, audit["run_id"]):
            kind = kind_of(finding)
            if kind is not None:
                newest[kind] = AuditLine(
                    run_id=audit["run_id"],
                    ended=audit["ended"],
                    mechanism=finding["mechanism"],
                    passed=finding["passed"],
                    claimed=finding["epsilon_claimed"],
                    proven=finding["epsilon_proven"],
                )
    return tuple(newest[kind] for kind in kinds if kind in newest)


def _votes_alike(kind: str, claim: Mapping[str, Any]) -> bool:
    return SIDES.get(kind) == claim["sides"] and (kind != "federated" or bool(claim["shared"]))


def same_noise(claim: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two claims describe the same noise of the same mechanism."""
    return all(
        (
            math.isclose(claim[name], other[name], rel_tol=1e-9)
            if isinstance(claim[name], float)
            else claim[name] == other[name]
        )
        for name in SAME
    )


def _mechanisms(artifacts: Artifacts, run_id: str) -> list[dict[str, Any]]:
    """Return the findings of one audit, the whole run last.

    Empty for an audit that stopped early.
    """
    path = f"runs/{run_id}/audit.json"
    text = artifacts.read_text(path)
    if text is None:
        return []
    try:
        findings = json.loads(text)
        whole = findings.get("pipeline")
        lines = [*findings["mechanisms"], *([whole] if whole else [])]
        optional = dict.fromkeys(("noise", *STEPS), "")
        return [
            {name: line[name] for name in READ} | {name: line.get(name, value) for name, value in optional.items()}
            for line in lines
        ]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ArtifactError(
            f"{artifacts.where(path)} cannot be read ({type(error).__name__}: damaged, or of another version), so "
            "the result of the audit is unknown. Move the file away and run the audit again."
        ) from None
