"""Collect the page that a privacy officer signs from ledger and run files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.ledger import Charge
from connectors.ledger.state import GROUP, Entry
from flows.engine.spending import output_of
from flows.publish import ledger_lines as lines
from flows.runtime.manifest import now
from flows.runtime.state_folder import is_party, state_folder
from flows.runtime.stores import open_artifacts, open_ledger
from flows.storage.audit_findings import SIDES, audits_of, audits_of_parts
from flows.storage.release_check import verify
from tasks.accounting.composition import epsilon_of
from tasks.accounting.federated import parties_of
from tasks.accounting.no_noise import finite
from tasks.accounting.teachers import PARTS
from tasks.accounting.votes import sides_of
from tasks.reporting import ledger_page
from tasks.reporting.ledger_page_model import AuditLine, NoiseLine, OfficerPage, RunLine, Sent
from tasks.reporting.report_model import Report, from_json
from tasks.reporting.text import certainty

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger
    from connectors.ledger.status import Status

EVEN, LOW = 0.5, 0.01
"""An attacker's prior beliefs for which the page shows the certainty."""

AUDITED = {"vocabulary": "dp_kps vocabulary", "density": "dp_kps density", "guidance": "guidance density"}
AUDITED |= {"training": "dp_sgd training", "exam": "kd labels"}
AUDITED |= {str(part): f"kd {part}" for part in PARTS}
"""Kind of audit that attacks a release, by its slot in the ledger; for other slots the kind has the slot's name."""


def write_page(dataset: str, language: str, path: Path | None = None) -> dict[str, Any]:
    """Write the ledger page of a dataset; return its numbers and path.

    A ledger that fails verification still produces a page, which lists the problems and warns against signing.
    """
    ledger_page.wording(language)
    home = state_folder()
    page = collect(open_ledger(home), home, dataset)
    if path is None:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", page.dataset)
        path = home / "officer" / f"{name}-{language}.html"
    elif path.is_dir():
        raise ConfigError(f"{path}: is a folder. Name a file.")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text_whole(path, ledger_page.render(page, language), private=True)
    return page.to_json() | {"page": str(path)}


def collect(ledger: PrivacyLedger, home: Path, dataset: str) -> OfficerPage:
    """Return the contents of a dataset's page.

    Raises LedgerError if the ledger has no such dataset.
    """
    name = ledger.find(dataset)
    problems = tuple(verify(open_artifacts(home), ledger, name).problems)
    if problems:
        return OfficerPage(dataset=name, names=(name,), made=now(), sure=(EVEN, LOW), problems=problems)
    status, entries = ledger.status(name), ledger.history(name)
    runs = tuple(_run(home, status, run_id, entries) for run_id in _runs(entries))
    return OfficerPage(
        dataset=dataset if dataset in status.names else name,
        names=status.names,
        made=now(),
        cap=status.cap,
        cap_protects=status.cap_protects,
        delta=status.delta,
        spent=status.spent,
        reserved=status.reserved,
        left=status.left,
        trainings=status.trainings,
        units=status.units,
        unit=_unit(status),
        exposed=status.exposed,
        voided=status.voided,
        refused=status.refused,
        versions=status.versions,
        sure=_sure(None if status.exposed else status.spent),
        head=entries[-1].hash if entries else "",
        runs=runs,
        lines=tuple(lines.line(entry) for entry in entries),
        group=status.group,
        members=status.members,
        shared=lines.shared(entries),
        touched=lines.touched(entries, runs),
        exports=lines.exports(entries),
        among=lines.among(entries, runs),
        of_party=is_party(home),
    )


def _unit(status: Status) -> str:
    """Return the unit of the totals: person if all releases or the cap protect it."""
    persons = bool(status.units) and all(unit.startswith("person/") for unit in status.units)
    return "person" if persons or status.cap_protects == "person" else "record"


def _runs(entries: Sequence[Entry]) -> list[str]:
    own = (entry for entry in entries if entry.run_id and not entry.kind.startswith(GROUP))
    return list(dict.fromkeys(entry.run_id for entry in own))


def _run(home: Path, status: Status, run_id: str, entries: Sequence[Entry]) -> RunLine:
    delta, report = status.delta or 0.0, _report(home, run_id)
    own = [entry for entry in entries if entry.run_id == run_id and not entry.kind.startswith(GROUP)]
    output = output_of(open_artifacts(home), run_id, entries, report)
    charged, released = output.charged, output.releases
    audits = _audits(home, released, delta) if released else ()
    loss = _epsilon(output.events, delta)
    return RunLine(
        run_id=run_id,
        flow=own[0].flow,
        who=", ".join(dict.fromkeys(entry.who for entry in own)),
        first=charged[0].at if charged else own[0].at,
        last=own[-1].at,
        state=_state(status, run_id, own, released),
        charged=len(charged),
        releases=len(released),
        added=_epsilon([entry.event for entry in charged], delta),
        loss=loss,
        at_most=output.at_most,
        asked=None if report is None else _stated_epsilon(report),
        delta=delta,
        unit=released[0].protects if released else "record",
        sure=_sure(loss),
        noise=_noise(released),
        files=report is not None,
        sent=() if report is None else _sent(report),
        without_noise=() if report is None else tuple(f"{access.what} ({access.where})" for access in report.touched),
        audits=audits,
        never_audited=_never_audited(released, audits),
    )


def _epsilon(events: Sequence[Mapping[str, Any]], delta: float) -> float | None:
    """Return the total epsilon of the events; None if one has no noise."""
    return finite(epsilon_of(list(events), delta)) if events else 0.0


def _audits(home: Path, released: Sequence[Entry], delta: float) -> tuple[AuditLine, ...]:
    """Return the newest audits of all released parts.

    Votes with different noise have no audit.
    """
    votes = [entry for entry in released if entry.slot.startswith("vote-")]
    parts = [(AUDITED.get(entry.slot, entry.slot), _charge(entry)) for entry in released if entry not in votes]
    of_parts = audits_of_parts(open_artifacts(home), parts) if parts else ()
    return _audits_of_votes(home, votes, delta) + of_parts if votes else of_parts


def _never_audited(released: Sequence[Entry], audits: Sequence[AuditLine]) -> tuple[str, ...]:
    """Return the kinds of releases without an audit; all votes of a run are one kind."""
    parts = {" ".join(audit.mechanism.split()[:2]) for audit in audits}
    votes = any(audit.mechanism.split()[0] in SIDES for audit in audits)
    names = dict.fromkeys("votes" if entry.slot.startswith("vote-") else entry.slot for entry in released)
    return tuple(name for name in names if not (votes if name == "votes" else AUDITED.get(name, name) in parts))


def _audits_of_votes(home: Path, released: Sequence[Entry], delta: float) -> tuple[AuditLine, ...]:
    first, *others = released
    names = ("noise_scale", "sensitivity", "protects", "adjacency", "sensitivity_reason")
    if any(getattr(other, name) != getattr(first, name) for other in others for name in names):
        return ()
    described = first.event, first.sensitivity_reason
    votes = {"sides": sides_of(*described), "shared": parties_of(*described) is not None}
    if not first.noise_scale or not first.sensitivity or not votes["sides"]:
        return ()
    numbers = {name: getattr(first, name) for name in names} | {"releases": len(released), "delta": delta}
    return audits_of(open_artifacts(home), numbers | votes)


def _charge(entry: Entry) -> Charge:
    return Charge(
        mechanism=entry.mechanism,
        event=entry.event,
        sensitivity=entry.sensitivity or 1.0,
        sensitivity_reason=entry.sensitivity_reason,
        noise_scale=entry.noise_scale or 0.0,
        protects=entry.protects,
        adjacency=entry.adjacency,
    )


def _state(status: Status, run_id: str, own: Sequence[Entry], released: Sequence[Entry]) -> str:
    if run_id in status.open_runs:
        return "open"
    if released:
        return "closed"
    return "refused" if any(entry.kind == "refuse" for entry in own) else "nothing"


def _sure(epsilon: float | None) -> tuple[float, float]:
    """Return an attacker's maximum certainty for prior beliefs 1/2 and 1/100."""
    return (1.0, 1.0) if epsilon is None else (certainty(epsilon, EVEN), certainty(epsilon, LOW))


def _stated_epsilon(report: Report) -> float | None:
    return None if math.isinf(report.plan.epsilon) else report.plan.epsilon


def _report(home: Path, run_id: str) -> Report | None:
    artifacts, path = open_artifacts(home), f"runs/{run_id}/report.json"
    text = artifacts.read_text(path)
    if text is None:
        return None
    try:
        return from_json(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"{artifacts.where(path)} is damaged ({type(error).__name__}). Write it again with: wasp resume {run_id}"
        ) from None


def _noise(released: Sequence[Entry]) -> tuple[NoiseLine, ...]:
    counts: dict[tuple[str, float, float, str], int] = {}
    for entry in released:
        key = (entry.mechanism, entry.noise_scale or 0.0, entry.sensitivity or 0.0, entry.sensitivity_reason)
        counts[key] = counts.get(key, 0) + 1
    return tuple(NoiseLine(times, *key) for key, times in counts.items())


def _sent(report: Report) -> tuple[Sent, ...]:
    return tuple(
        Sent(sent.plm, sent.destinations, sent.usage.calls, sent.usage.tokens_in, sent.usage.tokens_out)
        for sent in report.outgoing
    )
