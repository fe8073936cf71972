"""The ledger page that a privacy officer signs, as HTML and as JSON.

An epsilon without bound is None; epsilons apply at the page's `delta`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.ledger.state import (
    EXPORT,
    EXPOSED,
    GROUP,
    JOINED,
    LOOK,
    RELEASING,
    VIEW,
    Entry,
    drawn_releases,
)
from flows.engine.audit_findings import audits_of_releases
from flows.engine.spending import output_of
from flows.runtime.manifest import now
from flows.runtime.state_folder import is_party, state_folder
from flows.runtime.stores import open_artifacts, open_ledger
from tasks.accounting.composition import epsilon_of, second_opinion
from tasks.accounting.guarantee import finite
from tasks.private.density.release import DensityRelease
from tasks.private.parties.promise import parties_of
from tasks.private.phrases.release import PhrasesRelease, VocabularyRelease
from tasks.private.release import AuditCase
from tasks.private.teachers.release import LabelCountsRelease, TeacherAnswersRelease
from tasks.private.votes.promise import sides_of
from tasks.reporting import text as words
from tasks.reporting.run_record import RunRecord, from_json
from tasks.reporting.templates import template
from tasks.steps.values import GUIDANCE

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger
    from connectors.ledger.status import Status

EVEN, LOW = 0.5, 0.01
"""An attacker's prior beliefs for which the page shows the certainty."""
STATUS = (
    *("names", "cap", "cap_protects", "delta", "spent", "reserved", "left", "trainings", "units"),
    *("exposed", "voided", "refused", "versions", "group", "members"),
)
"""Fields of the budget status that the page shows."""
HIDDEN = ("charges", "extra", "key", "fingerprint", "records", "entry", "line", "carried")
"""Details of a ledger entry for programs, not shown on the page."""
KINDS_OF_LINES = {
    "register": "the dataset was registered",
    "version": "other rows, or rows with other marks of people, were registered for the dataset",
    "alias": "the same rows were registered under another name",
    "cap": "the cap was set or lifted",
    "reserve": "a run reserved the epsilon of all its releases",
    "release": "noisy numbers left the private rows; they count",
    "expose": "numbers left the private rows without noise",
    "finish": "a run returned what it had reserved and not released",
    "refuse": "the cap refused a run or a release",
    LOOK: "private rows were read without noise; see 'Non-private access to private rows'",
    EXPORT: "a bundle was exported",
    VIEW: "the owner named location and columns of the rows, or removed the name",
    JOINED: "the datasets with the same people changed",
    "void": "a release that nobody saw does not count",
}
"""Meaning of each kind of ledger line; with 'group ' before it, it is about another dataset of the group."""
AUDITED = {
    "training": "dp_sgd training",
    "exam": "kd labels",
    "labels": LabelCountsRelease.audited,
    "answers": TeacherAnswersRelease.audited,
    "vocabulary": VocabularyRelease.audited,
    "density": PhrasesRelease.audited,
    GUIDANCE: DensityRelease.audited,
}
"""Kind of audit that attacks a release, by its slot in the ledger; for other slots the kind has the slot's name."""


def write_page(dataset: str, path: Path | None = None) -> dict[str, Any]:
    """Write the ledger page of a dataset; return its numbers and path.

    A ledger that fails verification still produces a page, which lists the problems and warns against signing.
    """
    home = state_folder()
    page = collect(open_ledger(home), home, dataset)
    if path is None:
        path = home / "officer" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', page['dataset'])}.html"
    elif path.is_dir():
        raise ConfigError(f"{path}: is a folder. Name a file.")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text_whole(path, render(page), private=True)
    return page | {"page": str(path)}


def render(page: Mapping[str, Any]) -> str:
    """Return the page as self-contained HTML."""
    runs = page.get("runs", ())
    sent = [((use["plm"], use["hosts"]), use) for run in runs for use in run["sent"]]
    return template("ledger_page.html.j2").render(
        page=page,
        words=words,
        audited=_grouped((audit, run["run_id"]) for run in runs for audit in run["audits"]),
        never_audited=_grouped(
            (name, run["run_id"]) for run in runs for name in run["never_audited"]
        ),
        recipients=[(len(uses), _total(uses)) for _, uses in _grouped(sent)],
        percent=lambda share: "> 99.99 %" if share > 0.9999 else f"{100 * share:.1f} %",
    )


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, list[Any]]]:
    """Return each first member once, with all its second members."""
    grouped: dict[str, tuple[Any, list[Any]]] = {}
    for key, value in pairs:
        grouped.setdefault(repr(key), (key, []))[1].append(value)
    return list(grouped.values())


def _total(uses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return dict(uses[0]) | {
        name: sum(use[name] for use in uses) for name in ("calls", "tokens_in", "tokens_out")
    }


def collect(ledger: PrivacyLedger, home: Path, dataset: str) -> dict[str, Any]:
    """Return the contents of a dataset's page; of a ledger that is not valid, only its `problems`.

    Raises LedgerError if the ledger has no such dataset.
    """
    name = ledger.find(dataset)
    problems = ledger.verify(name, second=second_opinion)
    if problems:
        return {"dataset": name, "names": [name], "made": now(), "problems": list(problems)}
    status = ledger.status(name)
    entries = ledger.history(name)
    runs = [_run(home, status, run_id, entries) for run_id in _runs(entries)]
    persons = bool(status.units) and all(unit.startswith("person/") for unit in status.units)
    return {key: getattr(status, key) for key in STATUS} | {
        "dataset": dataset if dataset in status.names else name,
        "made": now(),
        "problems": [],
        "no_cap": _why_no_cap(entries),
        "unit": "person" if persons or status.cap_protects == "person" else "record",
        "sure": _sure(None if status.exposed else status.spent),
        "head": entries[-1].hash if entries else "",
        "runs": runs,
        "lines": [_line(entry) for entry in entries],
        "kinds": _kinds(entries),
        "registered": {"who": entries[0].who, "at": entries[0].at}
        if entries
        else {"who": "", "at": ""},
        "shared": _shared(entries),
        "touched": _touched(entries, runs),
        "exports": [_export(entry) for entry in entries if entry.kind == EXPORT],
        "among": _among(entries, runs),
        "of_party": is_party(home),
    }


def _why_no_cap(entries: Sequence[Entry]) -> str:
    """Return why a dataset has no cap: its owner lifted it, or a registration set no default."""
    if any(entry.kind == "cap" for entry in entries):
        return "lifted by the owner"
    return "only public rows and sums of parties need none"


def _runs(entries: Sequence[Entry]) -> list[str]:
    own = (entry for entry in entries if entry.run_id and not entry.kind.startswith(GROUP))
    return list(dict.fromkeys(entry.run_id for entry in own))


def _run(home: Path, status: Status, run_id: str, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the effect of one run on the dataset.

    `releases`: releases that the run's output depends on; the run `charged` some and reused the others. `added`:
    epsilon of the charged ones; `loss`: of all, an upper bound (`at_most`) if the run's files are missing. `sure`: the
    certainty that an attacker who sees the run's output reaches from 50 % and from 1 %.
    """
    delta = status.delta or 0.0
    report = _report(home, run_id)
    own = [
        entry for entry in entries if entry.run_id == run_id and not entry.kind.startswith(GROUP)
    ]
    released, events, at_most = output_of(open_artifacts(home), run_id, entries, report)
    charged = [entry for entry in released if entry.run_id == run_id]
    audits, never = (
        audits_of_releases(open_artifacts(home), _cases(released, delta)) if released else ((), ())
    )
    loss = _epsilon(events, delta)
    return {
        "run_id": run_id,
        "flow": own[0].flow,
        "who": ", ".join(dict.fromkeys(entry.who for entry in own)),
        "first": charged[0].at if charged else own[0].at,
        "last": own[-1].at,
        "state": _state(status, run_id, own, released),
        "charged": len(charged),
        "releases": len(released),
        "added": _epsilon([entry.event for entry in charged], delta),
        "loss": loss,
        "at_most": at_most,
        "asked": finite(report.epsilon) if report else None,
        "delta": delta,
        "unit": released[0].protects if released else "record",
        "sure": _sure(loss),
        "noise": _noise(released),
        "files": report is not None,
        "sent": _sent(report) if report else [],
        "without_noise": [f"{access.what} ({access.where})" for access in report.touched]
        if report
        else [],
        "audits": [asdict(audit) for audit in audits],
        "never_audited": list(never),
    }


def _epsilon(events: Sequence[Mapping[str, Any]], delta: float) -> float | None:
    """Return the total epsilon of the events; None if one has no noise."""
    return finite(epsilon_of(list(events), delta)) if events else 0.0


def _cases(released: Sequence[Entry], delta: float) -> dict[str, list[AuditCase]]:
    """Return the audits of each release by its name; all votes of a run are one release."""
    votes = [entry for entry in released if entry.slot.startswith("vote-")]
    parts = [entry for entry in released if entry not in votes]
    cases = {
        entry.slot: [AuditCase(AUDITED.get(entry.slot, entry.slot), entry.charge)]
        for entry in parts
    }
    return ({"votes": _cases_of_votes(votes, delta)} if votes else {}) | cases


def _cases_of_votes(votes: Sequence[Entry], delta: float) -> list[AuditCase]:
    """Return the audit of the votes; none for votes without noise or with different noise."""
    first, *others = votes
    names = ("noise_scale", "sensitivity", "protects", "adjacency", "sensitivity_reason")
    sides = sides_of(first.event, first.sensitivity_reason)
    differ = any(getattr(other, name) != getattr(first, name) for other in others for name in names)
    if differ or not first.noise_scale or not first.sensitivity or not sides:
        return []
    claim = {name: getattr(first, name) for name in names} | {
        "releases": len(votes),
        "delta": delta,
        "sides": sides,
    }
    claim["shared"] = parties_of(first.event, first.sensitivity_reason) is not None
    return [AuditCase("vote", first.charge, claim)]


def _state(status: Status, run_id: str, own: Sequence[Entry], released: Sequence[Entry]) -> str:
    """Return open (can still release), closed, refused (requested more than was left) or nothing (no release)."""
    if run_id in status.open_runs:
        return "open"
    if released:
        return "closed"
    return "refused" if any(entry.kind == "refuse" for entry in own) else "nothing"


def _sure(epsilon: float | None) -> tuple[float, float]:
    """Return an attacker's maximum certainty for prior beliefs 1/2 and 1/100."""
    return (
        (1.0, 1.0)
        if epsilon is None
        else (words.certainty(epsilon, EVEN), words.certainty(epsilon, LOW))
    )


def _report(home: Path, run_id: str) -> RunRecord | None:
    artifacts = open_artifacts(home)
    path = f"runs/{run_id}/report.json"
    text = artifacts.read_text(path)
    if text is None:
        return None
    try:
        return from_json(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"{artifacts.where(path)} is damaged ({type(error).__name__}). Write it again with: wasp resume {run_id}"
        ) from None


def _noise(released: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return equal releases of a run once, with their number."""
    names = ("mechanism", "scale", "sensitivity", "reason", "times")
    keys = [
        (e.mechanism, e.noise_scale or 0.0, e.sensitivity or 0.0, e.sensitivity_reason)
        for e in released
    ]
    return [dict(zip(names, (*key, times), strict=True)) for key, times in Counter(keys).items()]


def _sent(report: RunRecord) -> list[dict[str, Any]]:
    """Return what was sent to each language model; `hosts` is empty for a model on this machine."""
    return [
        {"plm": sent.plm, "hosts": sent.destinations}
        | {name: getattr(sent.usage, name) for name in ("calls", "tokens_in", "tokens_out")}
        for sent in report.outgoing
    ]


def _line(entry: Entry) -> dict[str, Any]:
    """Return a ledger entry as a line of the page."""
    detail = {key: value for key, value in entry.detail.items() if key not in HIDDEN}
    remark = canonical(detail)[1:-1].replace('"', "").replace(",", ", ") if detail else ""
    shown = ("number", "at", "who", "kind", "run_id", "slot", "mechanism", "hash")
    epsilon = entry.epsilon if entry.epsilon is None or math.isfinite(entry.epsilon) else None
    return {name: getattr(entry, name) for name in shown} | {
        "epsilon": epsilon,
        "remark": remark[:160],
    }


def _kinds(entries: Sequence[Entry]) -> dict[str, str]:
    """Return the meaning of each kind of line on the page."""
    kinds = dict.fromkeys(entry.kind for entry in entries)
    of_group = f"{GROUP}..."
    own = {kind: KINDS_OF_LINES[kind] for kind in kinds if not kind.startswith(GROUP)}
    return own | (
        {of_group: "the same for another dataset of the group"} if len(own) < len(kinds) else {}
    )


def _shared(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the releases of the other datasets of the group, which are also charged here, by dataset and run."""
    void = {entry.detail["number"] for entry in entries if entry.kind == f"{GROUP}void"}
    theirs = [
        (entry.detail["of"], entry.run_id, entry.who)
        for entry in entries
        if entry.kind in [f"{GROUP}{kind}" for kind in RELEASING] and entry.number not in void
    ]
    names = ("dataset", "run_id", "who", "releases")
    return [
        dict(zip(names, (*origin, number), strict=True))
        for origin, number in Counter(theirs).items()
    ]


def _touched(entries: Sequence[Entry], runs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return accesses to private rows without noise, from the ledger, then those that only reports mention."""
    names = ("at", "who", "flow", "run_id", "what", "where", "dataset")
    accesses = [entry for entry in entries if entry.kind.removeprefix(GROUP) in (LOOK, EXPOSED)]
    rows = [(e.at, e.who, e.flow, e.run_id, *_access(e), e.detail.get("of", "")) for e in accesses]
    recorded = {entry.run_id for entry in accesses}
    unrecorded = [run for run in runs if run["run_id"] not in recorded]
    rows += [
        ("", "", run["flow"], run["run_id"], what, "", "")
        for run in unrecorded
        for what in run["without_noise"]
    ]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _access(entry: Entry) -> tuple[str, str]:
    if entry.kind.removeprefix(GROUP) == EXPOSED:
        return (
            f"{entry.slot} without noise",
            "release.parquet of the iteration, and all that was made from it",
        )
    return entry.detail["what"], entry.detail["where"]


def _among(entries: Sequence[Entry], runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the parties that shared the noise of each federated run."""
    units = {run["run_id"]: run["unit"] for run in runs}
    federated = {}
    for entry in drawn_releases(entries):
        parties = parties_of(entry.event, entry.sensitivity_reason)
        if parties is not None:
            numbers = {
                "parties": parties.number,
                "minimum": parties.minimum,
                "colluding": parties.colluding,
            }
            federated[entry.run_id, parties] = {
                "run_id": entry.run_id,
                "unit": units[entry.run_id],
            } | numbers
    return list(federated.values())


def _export(entry: Entry) -> dict[str, Any]:
    """Return an exported bundle; `overlap`: result of the overlap search, None without a search."""
    detail = entry.detail
    return {
        "at": entry.at,
        "who": entry.who,
        "run_id": entry.run_id,
        "manifest": detail["manifest"],
        "license": detail["license"],
        "overlap": detail["overlap_check"].get("passed"),
        "approved": str((detail.get("approval") or {}).get("by", "")),
    }
