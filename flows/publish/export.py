"""Write the signed bundle of a run: synthetic rows, student and card."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from connectors.artifacts.atomic_files import file_sha256, write_folder_whole
from connectors.artifacts.parquet import to_arrow
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError, MissingPackageError, PlaceError
from connectors.interfaces.json_values import Json
from connectors.ledger.state import EXPORT, Entry
from connectors.security.signing import open_signing_key
from flows.config.task_files import load_task
from flows.publish import bundle, gate
from flows.publish.dataset_card import BundleFacts, columns_of, croissant, dataset_card
from flows.publish.recipe import encoder_of, measure_recipe
from flows.runtime.manifest import Approval, now
from flows.runtime.state_folder import current_user
from flows.runtime.stores import open_artifacts, open_ledger, open_tracked
from tasks.metrics.answer_counts import count_answers, describe_findings
from tasks.metrics.usefulness import ACCURACIES
from tasks.writing.prompts import TaskCard

Approve = Callable[[BundleFacts], "Approval"] | None
SHARED = (
    "run_id",
    "flow",
    "task",
    "n_synthetic",
    *ACCURACIES,
    "macro_f1",
    "next_word_loss",
    "usefulness",
    "stubs",
)
SPENT = ("epsilon_spent", "epsilon_added", "delta", "releases", "releases_charged")
STUDENT_FILES = {".json", ".npz", ".safetensors", ".txt", ".model", ".jinja", ".md"}
"""Allowed file types of a student: weights without pickle, and settings."""


def export_run(
    home: Path,
    manifest: Json,
    folder: Path,
    license_: str,
    overlap_check: bool,
    approve: Approve = None,
) -> Json:
    """Write the bundle of a finished run atomically into a new or empty folder.

    `license_`: a Hub identifier. `approve` is called after the gate passes and before anything is written.
    Raises ApprovalError if `approve` does; ConfigError for an unfinished or not private run, and if texts repeat long
    passages of private rows; LedgerError if the privacy ledger does not verify; AuditError if the newest audit of the
    run's noise failed.
    """
    run = f"runs/{manifest['run_id']}"
    artifacts = open_artifacts(home)
    _require_empty(folder)
    summary, report = gate.shareable(artifacts, manifest)
    audits, never = gate.require_no_red_audit(artifacts, manifest)
    card = load_task(manifest["config"]["task"])
    texts = pd.read_parquet(artifacts.fetch(f"{run}/synthetic.parquet"), partitioning=None)
    rows = texts[columns_of(card.has_classes, "label_soft" in texts)]
    student = check_student(artifacts.fetch(f"{run}/student")) if card.has_classes else None
    gate.require_sound_ledger(home, manifest["dataset"])
    facts = BundleFacts(
        report,
        card,
        manifest,
        made=now(),
        license=license_,
        unsearched=_unsearched(manifest, overlap_check),
        audits=audits,
        never_audited=never,
        soft="label_soft" in rows,
        pooled=student is not None and (student / "head.safetensors").exists(),
        reads=_reads(artifacts.read_text(f"{run}/student.json")),
        # Reports of earlier versions do not contain the counts.
        findings=describe_findings(report.answers or count_answers((), texts)),
        **_measured(home, manifest, rows, card),
    )
    if approve is not None:
        facts = _approve(facts, approve, home)
    if overlap_check:  # last: its answer has no noise
        overlap = gate.search(home, artifacts, manifest, rows)
        facts = replace(
            facts, overlap=overlap, unsearched="" if overlap else "this run opened no private row"
        )

    def fill(scratch: Path) -> None:
        pq.write_table(
            to_arrow(rows, "synthetic.parquet"), scratch / "synthetic.parquet", compression="zstd"
        )
        write_json_lines(scratch / "synthetic.jsonl", rows)
        if student is not None:
            _copy_student(student, scratch / "student", manifest["config"])
        _write_json(
            scratch / "summary.json", {key: summary.to_json().get(key) for key in SHARED + SPENT}
        )
        _write_json(scratch / "croissant.json", croissant(facts, scratch))
        (scratch / "README.md").write_text(dataset_card(facts), encoding="utf-8")
        bundle.seal(scratch, open_signing_key(home), _manifest(facts))
        # Record the export before the bundle becomes visible, so a crash cannot leave an unrecorded bundle.
        if manifest["dataset"]:
            open_ledger(home).note(_ledger_entry(facts, file_sha256(scratch / bundle.MANIFEST)))

    write_folder_whole(folder.resolve(), fill)
    if student is not None:
        _register_student(home, manifest, card)
    files = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    return {"run_id": manifest["run_id"], "folder": str(folder), "files": files} | _checks(facts)


def _approve(
    facts: BundleFacts, approve: Callable[[BundleFacts], "Approval"], home: Path
) -> BundleFacts:
    """Return the facts with their approval, which can take days: the ledger is verified again after it."""
    approved = replace(facts, approved=(current_user(), approve(facts)), made=now())
    gate.require_sound_ledger(home, facts.book["dataset"])
    return approved


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: exists and is not an empty folder. Name a new one.")


def _register_student(home: Path, manifest: Mapping[str, Any], card: TaskCard) -> None:
    """Add the student to MLflow's registry; if MLflow is away, `wasp push --all` does it later."""
    uri = manifest["config"].get("tracking", {}).get("mlflow")
    open_tracked(home, manifest["run_id"], uri).register(f"{manifest['flow']}-{card.name}")


def _reads(student: str | None) -> str:
    """Return what the student learned from besides the texts; older files do not state it."""
    return str(json.loads(student).get("reads", "")) if student else ""


def _checks(facts: BundleFacts) -> Json:
    """Return what the gate found, for the terminal."""
    checks: Json = {"overlap_check": _searched(facts), "audited": bool(facts.audits)}
    warnings = [*gate.warnings_of(facts.report), *facts.findings]
    return checks | {"never_audited": list(facts.never_audited), "warnings": warnings}


def _measured(home: Path, manifest: Mapping[str, Any], rows: pd.DataFrame, card: TaskCard) -> Json:
    """Return what the card's recipe reaches on the test rows, or why it was not run; nothing without a recipe."""
    if not card.has_classes:
        return {}
    try:
        return {"reached": measure_recipe(home, manifest, rows, card.label_names)}
    except (PlaceError, MissingPackageError) as error:
        return {"not_run": str(error)}


def _unsearched(manifest: Mapping[str, Any], overlap_check: bool) -> str:
    """Return why texts are not searched for passages of private rows; empty if they are."""
    if overlap_check:
        return ""
    if manifest["config"].get("parties"):
        return "only the parties of the run have the private rows and could search (--no-overlap-check)"
    return "the search was switched off (--no-overlap-check)"


def _copy_student(student: Path, folder: Path, config: Mapping[str, Any]) -> None:
    """Copy a student; add the encoder of one on vectors to its card."""
    shutil.copytree(student, folder)
    card = folder / "student.json"
    if config["student"]["kind"] != "finetune":
        values = json.loads(card.read_text(encoding="utf-8"))
        encoder = (
            encoder_of(config)
            or f"{config['embedder']['connector']} {config['embedder']['model']}".strip()
        )
        _write_json(card, values | {"encoder": encoder})


def write_json_lines(path: Path, rows: pd.DataFrame) -> None:
    """Write rows with the shortest digits that give the same numbers; pandas would round them to ten decimals."""
    table = to_arrow(rows, "synthetic.parquet")
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in table.to_pylist())
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(
        json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def check_student(folder: Path) -> Path:
    """Return the folder of a student; refuse files that could execute code when opened, such as pickles."""
    for path in folder.rglob("*"):
        if path.is_symlink() or (path.is_file() and path.suffix not in STUDENT_FILES):
            raise ArtifactError(
                f"{path}: not an allowed file of a student ({', '.join(sorted(STUDENT_FILES))}), so nothing was "
                "exported. To train the student again, remove its folder and run: wasp resume"
            )
    return folder


def _ledger_entry(facts: BundleFacts, manifest: str) -> Entry:
    """Return the ledger entry of an export with user and manifest hash."""
    detail: Json = {
        "manifest": manifest,
        "license": facts.license,
        "overlap_check": _searched(facts),
    }
    if facts.approved:
        detail["approval"] = _approved(facts)
    return Entry(
        facts.book["dataset"],
        EXPORT,
        current_user(),
        facts.report.flow,
        facts.report.run_id,
        detail_json=canonical(detail),
    )


def _approved(facts: BundleFacts) -> dict[str, str] | None:
    if facts.approved is None:
        return None
    requester, approval = facts.approved
    return {
        "requested_by": requester,
        "by": approval.by,
        "at": approval.at,
        "reason": approval.reason,
    }


def _manifest(facts: BundleFacts) -> Json:
    report = facts.report
    return {
        "run_id": report.run_id,
        "flow": report.flow,
        "task": report.task,
        "made": facts.made,
        "license": facts.license,
        "privacy": {"unit": facts.unit, "epsilon_stated": report.epsilon}
        | {name: getattr(report, name) for name in ("adjacency", "epsilon_exact", *SPENT)},
        "overlap_check": _searched(facts),
        "approval": _approved(facts),
        "audit": {
            "done": bool(facts.audits),
            "newest": [asdict(audit) for audit in facts.audits],
            "never": list(facts.never_audited),
        },
        "versions": dict(report.versions),
    }


def _searched(facts: BundleFacts) -> Json:
    if facts.overlap is None:
        return {"done": False, "why": facts.unsearched}
    return {
        "done": True,
        "words": facts.overlap.words,
        "passed": facts.overlap.passed,
        "mark": facts.overlap.mark,
    }
