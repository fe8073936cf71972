"""Collects what an officer signs: the book of one dataset and what the files of its runs say."""

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
from flows.publish.audits import audits_of, audits_of_parts
from flows.runtime.manifest import now
from flows.runtime.state_folder import is_party, state_folder
from flows.runtime.stores import open_artifacts, open_ledger
from flows.storage.release_check import verify
from tasks.accounting.composition import epsilon_of
from tasks.accounting.federated import parties_of
from tasks.accounting.no_noise import finite
from tasks.accounting.teachers import PARTS
from tasks.accounting.votes import sides_of
from tasks.reporting import ledger_page
from tasks.reporting.ledger_page_model import AuditLine, Noise, OfficerPage, RunLine, Sent
from tasks.reporting.report_model import Report, from_json
from tasks.reporting.text import certainty

if TYPE_CHECKING:
    from connectors.ledger.ledger import BudgetBook
    from connectors.ledger.status import Status

EVEN, LOW = 0.5, 0.01

"""Releases that are audited by themselves."""

AUDITED = {"vocabulary": "dp_kps vocabulary", "density": "dp_kps density", "guidance": "guidance density"}
AUDITED |= {part: f"kd {part}" for part in PARTS}
"""Kind of audit that attacks a release, by its slot in the ledger; for other slots the kind has the slot's name."""


def write_page(dataset: str, language: str, place: Path | None = None) -> dict[str, Any]:
    """Write the officer's page of a dataset; return its numbers and its place.

    A book that cannot be read any more still gives a page: it says what does not hold, and that nobody should sign.
    """
    ledger_page.wording(language)
    home = state_folder()
    page = collect(open_ledger(home), home, dataset)
    if place is None:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", page.dataset)
        place = home / "officer" / f"{name}-{language}.html"
    elif place.is_dir():
        raise ConfigError(f"{place} is a folder; name a file")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text_whole(place, ledger_page.render(page, language), private=True)
    return page.to_json() | {"page": str(place)}


def collect(book: BudgetBook, home: Path, dataset: str) -> OfficerPage:
    """Return what is known about a dataset; LedgerError if the book knows none of that name."""
    name = book.find(dataset)
    problems = tuple(verify(open_artifacts(home), book, name).problems)
    if problems:
        return OfficerPage(dataset=name, names=(name,), made=now(), sure=(EVEN, LOW), problems=problems)
    status, entries = book.status(name), book.history(name)
    runs = tuple(_run(home, status, run_id, entries) for run_id in _runs(entries))
    return OfficerPage(
        dataset=name,
        names=status.names,
        made=now(),
        cap=status.cap,
        cap_protects=status.cap_protects,
        delta=status.delta,
        spent=status.spent,
        reserved=status.reserved,
        left=status.left,
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
    """Return what the totals hold for: persons only if every release, or the cap, protects persons."""
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
        asked=None if report is None else _asked(report),
        delta=delta,
        unit=released[0].protects if released else "record",
        sure=_sure(loss),
        noise=_noise(released),
        files=report is not None,
        sent=() if report is None else _sent(report),
        without_noise=() if report is None else tuple(f"{one.what} ({one.where})" for one in report.touched),
        student_accuracy=report.scores.accuracy if report is not None and report.scores else None,
        audits=_audits(home, released, delta) if released else (),
    )


def _epsilon(events: Sequence[Mapping[str, Any]], delta: float) -> float | None:
    """Return the epsilon of all events together, 0 without any, None for one without noise."""
    return finite(epsilon_of(list(events), delta)) if events else 0.0


def _audits(home: Path, released: Sequence[Entry], delta: float) -> tuple[AuditLine, ...]:
    """Return the newest audits of equal votes, of both parts of DP-KPS, of a density; votes that differ have none."""
    votes = [entry for entry in released if entry.slot.startswith("vote-")]
    parts = [(AUDITED.get(entry.slot, entry.slot), _charge(entry)) for entry in released if entry not in votes]
    of_parts = audits_of_parts(open_artifacts(home), parts) if parts else ()
    return _audits_of_votes(home, votes, delta) + of_parts if votes else of_parts


def _audits_of_votes(home: Path, released: Sequence[Entry], delta: float) -> tuple[AuditLine, ...]:
    first, *others = released
    names = ("noise_scale", "sensitivity", "protects", "adjacency", "sensitivity_reason")
    if any(getattr(one, name) != getattr(first, name) for one in others for name in names):
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
    """Return how sure an attacker can become who starts at one half, and at one in a hundred."""
    return (1.0, 1.0) if epsilon is None else (certainty(epsilon, EVEN), certainty(epsilon, LOW))


def _asked(report: Report) -> float | None:
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
            f"{artifacts.where(path)} is damaged ({type(error).__name__}); write it again: wasp resume {run_id}"
        ) from None


def _noise(released: Sequence[Entry]) -> tuple[Noise, ...]:
    found: dict[tuple[str, float, float, str], int] = {}
    for entry in released:
        key = (entry.mechanism, entry.noise_scale or 0.0, entry.sensitivity or 0.0, entry.sensitivity_reason)
        found[key] = found.get(key, 0) + 1
    return tuple(Noise(times, *key) for key, times in found.items())


def _sent(report: Report) -> tuple[Sent, ...]:
    return tuple(
        Sent(one.plm, one.destinations, one.usage.calls, one.usage.tokens_in, one.usage.tokens_out)
        for one in report.outgoing
    )
