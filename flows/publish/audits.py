"""What audits in the state folder say about the noise of a run: for the release gate, the card and the officer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError, AuditError
from connectors.interfaces.ledger import Charge
from flows.catalog import find_flow
from tasks.reporting.ledger_page_model import AuditLine

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts

SAME = ("noise_scale", "sensitivity", "releases", "delta", "protects", "adjacency")
"""Numbers that a run and an audited mechanism must share for the audit to be about the run."""

READ = ("mechanism", "passed", "epsilon_claimed", "epsilon_proven", *SAME)
"""What is read of each finding."""

SIDES = {"wasp": 2, "pe": 1, "federated": 2, "whole": 2}
"""How rows vote in each audited mechanism, by the first word of its name: near and far, or near alone.

An audit is about a run whose rows vote alike, and `federated` only about runs of several parties; an audit of a part of
DP-KPS, or of a density, is about no vote.
"""


def audits_of(artifacts: Artifacts, claim: Mapping[str, Any]) -> tuple[AuditLine, ...]:
    """Return the newest audits of the vote, of sums of parties and of a whole run with the noise of `claim`, if any.

    `claim`: the numbers of `SAME`, `sides` of the run's vote, `shared`: whether several parties voted. A red audit of
    one kind is not made good by a newer one of another. ArtifactError when findings are damaged.
    """

    def kind_of(found: Mapping[str, Any]) -> str | None:
        kind = found["mechanism"].split()[0]
        return kind if _votes_alike(kind, claim) and same_noise(found, claim) else None

    return _newest(artifacts, kind_of, tuple(SIDES))


def audits_of_parts(artifacts: Artifacts, charges: Sequence[tuple[str, Charge]]) -> tuple[AuditLine, ...]:
    """Return the newest audit of each release that is no vote, with the noise of its charge, (kind, charge).

    An audit attacks few terms and frequencies and proves the same for any number: what counts is the noise in units of
    what a document adds.
    """
    wanted = dict(charges)

    def kind_of(found: Mapping[str, Any]) -> str | None:
        kind = " ".join(found["mechanism"].split()[:2])
        charge = wanted.get(kind)
        return kind if charge is not None and _same_part(found, charge) else None

    return _newest(artifacts, kind_of, tuple(wanted))


def _same_part(found: Mapping[str, Any], charge: Charge) -> bool:
    same_kind = charge.mechanism.endswith(str(found["noise"]))
    ours, theirs = charge.noise_scale / charge.sensitivity, found["noise_scale"] / found["sensitivity"]
    return same_kind and charge.adjacency == found["adjacency"] and math.isclose(ours, theirs, rel_tol=1e-4)


def _newest(
    artifacts: Artifacts, kind_of: Callable[[Mapping[str, Any]], str | None], kinds: Sequence[str]
) -> tuple[AuditLine, ...]:
    """Return the newest finding of each kind; `kind_of` says None of findings that are about other noise."""
    newest: dict[str, AuditLine] = {}
    books = [book for book in artifacts.list_runs() if book.get("flow") == "audit" and book.get("ended")]
    for book in sorted(books, key=lambda one: str(one["ended"])):
        for found in _mechanisms(artifacts, book["run_id"]):
            kind = kind_of(found)
            if kind is not None:
                newest[kind] = AuditLine(
                    run_id=book["run_id"],
                    ended=book["ended"],
                    mechanism=found["mechanism"],
                    passed=found["passed"],
                    claimed=found["epsilon_claimed"],
                    proven=found["epsilon_proven"],
                )
    return tuple(newest[kind] for kind in kinds if kind in newest)


def require_no_red_audit(artifacts: Artifacts, book: Mapping[str, Any]) -> tuple[AuditLine, ...]:
    """Return the newest audits of a run's noise, none if it was never audited; AuditError if one of them is red."""
    from flows.config.files import check_config
    from flows.engine.prepare import releases_of

    config: Any = check_config(find_flow(book["flow"]).config, book["config"], f"manifest of {book['run_id']}")
    cases = [case for release in releases_of(config).items for case in release.audits()]
    found: tuple[AuditLine, ...] = ()
    for case in cases:
        if case.claim is not None:
            found += audits_of(artifacts, case.claim)
        else:
            found += audits_of_parts(artifacts, [(case.kind, case.charge)])
    for one in found:
        if not one.passed:
            raise AuditError(
                f"Nothing is exported: audit {one.run_id} of {one.ended[:10]} is red for the noise of this run "
                f"({one.mechanism}: epsilon {one.claimed:.4f} is claimed, at least {one.proven:.4f} was proven, or "
                f"noise was not fresh). What was found: wasp show {one.run_id}. Find what weakens the noise, make the "
                "run anew (noise that was drawn stays as weak as it was), and audit again: wasp run audit"
            )
    return found


def _votes_alike(kind: str, claim: Mapping[str, Any]) -> bool:
    return SIDES.get(kind) == claim["sides"] and (kind != "federated" or bool(claim["shared"]))


def same_noise(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two claims are about the same noise of the same mechanism."""
    return all(
        math.isclose(one[name], other[name], rel_tol=1e-9) if isinstance(one[name], float) else one[name] == other[name]
        for name in SAME
    )


def _mechanisms(artifacts: Artifacts, run_id: str) -> list[dict[str, Any]]:
    """Return what one audit found, the whole run last; nothing for an audit that ended before it found anything."""
    place = f"runs/{run_id}/audit.json"
    text = artifacts.read_text(place)
    if text is None:
        return []
    try:
        found = json.loads(text)
        whole = found.get("pipeline")
        lines = [*found["mechanisms"], *([whole] if whole else [])]
        return [{name: one[name] for name in READ} | {"noise": one.get("noise", "")} for one in lines]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ArtifactError(
            f"{artifacts.where(place)} cannot be read ({type(error).__name__}: damaged, or of another version), so "
            "nobody knows whether the audit was red; move it away and run the audit again"
        ) from None
