"""The bundle that may leave: synthetic rows, student, card and signature, and nothing that noise did not cover."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.artifacts.atomic_files import file_sha256, write_folder_whole
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.ledger.state import EXPORT, Entry
from connectors.security.signing import open_signing_key
from flows.config.task_files import load_task
from flows.publish import bundle, gate
from flows.publish.audits import require_no_red_audit
from flows.publish.croissant import croissant
from flows.publish.dataset_card import COLUMNS, Told, dataset_card
from flows.runtime.manifest import now
from flows.runtime.state_folder import who
from flows.runtime.stores import open_ledger

if TYPE_CHECKING:
    import pandas as pd

    from connectors.artifacts.store import Artifacts
    from flows.engine.approval import Approval

SHARED = ("run_id", "flow", "task", "n_synthetic", "accuracy", "macro_f1", "usefulness")
SPENT = ("epsilon_spent", "epsilon_added", "delta", "releases", "releases_charged")
STUDENT_FILES = {".json", ".npz", ".safetensors", ".txt", ".model", ".jinja", ".md"}
"""What a student may consist of: weights without pickle, and settings."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How a bundle is made: under which licence (an identifier of the hub), and whether copies are looked for.

    `approve` is asked when the gate lets the bundle pass and before anything is written; it raises ApprovalError.
    """

    license: str = "other"
    overlap_check: bool = True
    approve: Callable[[Told], Approval] | None = None


def export_run(
    home: Path, artifacts: Artifacts, book: dict[str, Any], folder: Path, wish: Wish | None = None
) -> dict[str, Any]:
    """Write the bundle of a finished run into `folder`, which must be new or empty; all of it, or nothing.

    Raises ApprovalError when somebody has to approve and does not; ConfigError for an unfinished or not private run,
    and when texts repeat long passages of private rows; LedgerError when the budget book does not verify, AuditError
    when the newest audit of the run's noise is red.
    """
    wish, run = wish or Wish(), f"runs/{book['run_id']}"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: exists and is not an empty folder; name a new one")
    summary, report = gate.shareable(artifacts, book)
    audits = require_no_red_audit(artifacts, book)
    rows, student = _rows(artifacts.fetch(f"{run}/synthetic.parquet")), artifacts.fetch(f"{run}/student")
    check_student(student)
    gate.ledger_head(home, artifacts, book["dataset"])
    overlap = gate.search(home, artifacts, book, rows) if wish.overlap_check else None
    unsearched = "the search was switched off (--no-overlap-check)"
    if book["config"].get("parties"):
        unsearched = "the private rows lie with the parties of the run, who alone could search (--no-overlap-check)"
    if wish.overlap_check and overlap is None:
        unsearched = "this run opened no private row"
    card = load_task(book["config"]["task"])
    head = gate.ledger_head(home, artifacts, book["dataset"])
    told = Told(report, card, book, head, now(), wish.license, overlap, unsearched, audits=audits)
    if wish.approve is not None:
        approval = wish.approve(told)
        head = gate.ledger_head(home, artifacts, book["dataset"])  # others may have released meanwhile
        told = replace(told, head=head, made=now(), approved=(who(), approval))
    secret = open_signing_key(home)

    def fill(scratch: Path) -> None:
        _write_rows(rows, scratch)
        shutil.copytree(student, scratch / "student")
        _write_json(scratch / "summary.json", {key: summary.get(key) for key in SHARED + SPENT})
        _write_json(scratch / "croissant.json", croissant(told, scratch))
        (scratch / "README.md").write_text(dataset_card(told), encoding="utf-8")
        bundle.seal(scratch, secret, _manifest(told))
        # Before the bundle can be seen: what left must stand in the book, whatever happens now.
        if told.head:
            open_ledger(home).note(_line(told, file_sha256(scratch / bundle.MANIFEST)))

    write_folder_whole(folder.resolve(), fill)
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {
        "run_id": book["run_id"],
        "folder": str(folder),
        "files": files,
        "overlap_check": _searched(told),
        "audited": bool(audits),
        "warnings": list(report.usefulness.warnings) if report.usefulness else [],
    }


def _rows(file: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_parquet(file, partitioning=None)[list(COLUMNS)]


def _write_rows(rows: pd.DataFrame, folder: Path) -> None:
    rows.to_parquet(folder / "synthetic.parquet", compression="zstd", index=False)
    rows.to_json(folder / "synthetic.jsonl", orient="records", lines=True, force_ascii=False)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def check_student(folder: Path) -> None:
    """Refuse what could run code where it is opened, a pickle above all."""
    for path in folder.rglob("*"):
        if path.is_symlink() or (path.is_file() and path.suffix not in STUDENT_FILES):
            raise ArtifactError(
                f"{path} is none of the files that a student consists of ({', '.join(sorted(STUDENT_FILES))}), so "
                "nothing is exported. Train it again: remove the student folder and type wasp resume"
            )


def _line(told: Told, manifest: str) -> Entry:
    """Return the budget book's line of a bundle: who took it, and by the hash of its manifest what is in it."""
    detail: dict[str, Any] = {"manifest": manifest, "license": told.license, "overlap_check": _searched(told)}
    if told.approved:
        detail["approval"] = _approved(told)
    return Entry(
        told.book["dataset"], EXPORT, who(), told.report.flow, told.report.run_id, detail_json=canonical(detail)
    )


def _approved(told: Told) -> dict[str, str] | None:
    if told.approved is None:
        return None
    asked, approval = told.approved
    return {"requested_by": asked, "by": approval.by, "at": approval.at, "reason": approval.reason}


def _manifest(told: Told) -> dict[str, Any]:
    report = told.report
    return {
        "run_id": report.run_id,
        "flow": report.flow,
        "task": report.task,
        "made": told.made,
        "license": told.license,
        "ledger_head": told.head,
        "privacy": {
            "unit": told.unit,
            "adjacency": report.plan.adjacency,
            "epsilon_stated": report.plan.epsilon,
            "epsilon_exact": report.plan.epsilon_exact,
            "epsilon_spent": report.happened.epsilon,
            "epsilon_added": report.happened.added,
            "delta": report.plan.delta,
            "releases": report.happened.releases,
            "releases_charged": report.happened.charged,
        },
        "overlap_check": _searched(told),
        "approval": _approved(told),
        "audit": {"done": bool(told.audits), "newest": [asdict(one) for one in told.audits]},
        "versions": dict(report.versions),
    }


def _searched(told: Told) -> dict[str, Any]:
    if told.overlap is None:
        return {"done": False, "why": told.unsearched}
    return {"done": True, "words": told.overlap.words, "passed": told.overlap.passed, "mark": told.overlap.mark}
