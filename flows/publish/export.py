"""Write the signed bundle of a run: synthetic rows, student, class means of the release and card."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from connectors.artifacts.atomic_files import file_sha256, write_folder_whole
from connectors.artifacts.parquet import to_arrow
from connectors.artifacts.store import Artifacts
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError, MissingPackageError, PlaceError
from connectors.interfaces.json_values import Json
from connectors.ledger.state import EXPORT, Entry
from connectors.security.signing import open_signing_key
from flows.config.task_files import load_task
from flows.engine.audit_findings import AuditLine
from flows.publish import bundle, gate, release_head
from flows.publish.announcement import ExportedBundle, announce
from flows.publish.dataset_card import BundleFacts, columns_of, croissant, dataset_card
from flows.publish.recipe import encoder_of, measure_recipe
from flows.publish.release_head import release_head_of, write_release_head
from flows.runtime.manifest import Approval, now
from flows.runtime.state_folder import current_user
from flows.runtime.stores import open_artifacts, open_ledger, open_tracked
from tasks.guidance.density import ClassMeans
from tasks.metrics.answer_counts import count_answers, describe_findings
from tasks.metrics.usefulness import ACCURACIES
from tasks.reporting.run_record import RunRecord
from tasks.reporting.run_summary import RunSummary
from tasks.students.soft_labels import harden
from tasks.students.training_set import BEST, NO_MODEL, SOFT, SOURCE
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


@dataclass(frozen=True, slots=True)
class BundleContents:
    """Contents of the bundle of a run that has passed the gate.

    Attributes:
        manifest: manifest of the run.
        summary: summary of the run.
        report: record of the run.
        card: task of the run.
        texts: stored texts with all columns; without public ones if the configuration leaves them out.
        student: folder of the student; None for a task without classes.
        release_head: class means of the run's release; None without a released density.
        audits: newest audits of the run's noise.
        never_audited: names of the releases without an audit.
    """

    manifest: Json
    summary: RunSummary
    report: RunRecord
    card: TaskCard
    texts: pd.DataFrame
    student: Path | None
    release_head: ClassMeans | None
    audits: tuple[AuditLine, ...]
    never_audited: tuple[str, ...]

    @property
    def has_soft_labels(self) -> bool:
        """True if the rows contain the probability of each class."""
        return SOFT in self.texts

    @property
    def rows(self) -> pd.DataFrame:
        """The texts with the columns of a bundle."""
        texts = self.texts
        if self.has_soft_labels:
            probabilities = np.array(texts[SOFT].tolist(), dtype=np.float64)
            texts = texts.assign(**{BEST: harden(probabilities, self.card.label_names)})
        return texts[columns_of(self.card.has_classes, self.has_soft_labels, SOURCE in texts)]

    @property
    def written(self) -> pd.DataFrame:
        """The texts that language models wrote."""
        return self.texts[self.texts["plm"] != NO_MODEL]


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
    artifacts = open_artifacts(home)
    _require_empty(folder)
    contents = _checked_contents(home, artifacts, manifest)
    facts = replace(
        _facts(home, artifacts, contents),
        license=license_,
        unsearched=_unsearched(manifest, overlap_check),
    )
    if approve is not None:
        facts = _approve(facts, approve, home)
    # Last: its answer has no noise, and no other check should refuse the export after it.
    if overlap_check:
        facts = _search(home, artifacts, contents, facts)
    write_folder_whole(folder.resolve(), partial(_write_bundle, home, contents, facts))
    written = _written(facts, folder.resolve())
    _track(home, contents, written)
    announce(written)
    files = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    return {"run_id": manifest["run_id"], "folder": str(folder), "files": files} | _checks(facts)


def _checked_contents(home: Path, artifacts: Artifacts, manifest: Json) -> BundleContents:
    """Return what the bundle of a run contains; raise an error as `export_run` if a check fails."""
    run = f"runs/{manifest['run_id']}"
    summary, report = gate.shareable(artifacts, manifest)
    audits, never = gate.require_no_red_audit(artifacts, manifest)
    card = load_task(manifest["config"]["task"])
    texts = pd.read_parquet(artifacts.fetch(f"{run}/synthetic.parquet"), partitioning=None)
    if not manifest["config"].get("export", {}).get("public_rows", True):
        texts = texts[texts["plm"] != NO_MODEL].drop(columns=SOURCE, errors="ignore")
    student = None
    if card.has_classes:
        student = check_student(artifacts.fetch(f"{run}/student"))
    head = release_head_of(artifacts, manifest["run_id"], card.label_names)
    gate.require_sound_ledger(home, manifest["dataset"])
    return BundleContents(manifest, summary, report, card, texts, student, head, audits, never)


def _facts(home: Path, artifacts: Artifacts, contents: BundleContents) -> BundleFacts:
    """Return the facts for card and manifest, without licence, approval and search."""
    manifest = contents.manifest
    report = contents.report
    student = contents.student
    return BundleFacts(
        report,
        contents.card,
        manifest,
        made=now(),
        license="",
        audits=contents.audits,
        never_audited=contents.never_audited,
        soft=contents.has_soft_labels,
        pooled=student is not None and (student / "head.safetensors").exists(),
        has_release_head=contents.release_head is not None,
        reads=_reads(artifacts.read_text(f"runs/{manifest['run_id']}/student.json")),
        # Reports of earlier versions do not contain the counts.
        findings=describe_findings(report.answers or count_answers((), contents.written)),
        public_texts=_public_texts(contents),
        **_measured(home, manifest, contents.rows, contents.card),
    )


def _search(
    home: Path, artifacts: Artifacts, contents: BundleContents, facts: BundleFacts
) -> BundleFacts:
    """Return the facts with the result of the search for copied passages of private rows.

    Public texts are not searched: all of them are in the bundle whatever the records are, so they reveal none.
    """
    overlap = gate.search(home, artifacts, contents.manifest, contents.written)
    unsearched = "" if overlap else "this run opened no private row"
    return replace(facts, overlap=overlap, unsearched=unsearched)


def _write_bundle(home: Path, contents: BundleContents, facts: BundleFacts, scratch: Path) -> None:
    """Write all files of a bundle to a scratch folder, sign them, and record the export in the ledger."""
    rows = contents.rows
    table = to_arrow(rows, "synthetic.parquet")
    pq.write_table(table, scratch / "synthetic.parquet", compression="zstd")
    write_json_lines(scratch / "synthetic.jsonl", rows)
    if contents.student is not None:
        _copy_student(contents.student, scratch / "student", contents.manifest["config"])
    if contents.release_head is not None:
        encoder = _encoder(contents.manifest["config"])
        write_release_head(contents.release_head, encoder, scratch / release_head.FOLDER)
    # Only listed fields: a later version may add some to the summary that no bundle should have.
    summary = contents.summary.to_json()
    _write_json(scratch / "summary.json", {key: summary.get(key) for key in SHARED + SPENT})
    # croissant.json contains hashes of the files above, and the signature covers all files.
    _write_json(scratch / "croissant.json", croissant(facts, scratch))
    (scratch / "README.md").write_text(dataset_card(facts), encoding="utf-8")
    bundle.seal(scratch, open_signing_key(home), _manifest(facts))
    # Record the export before the bundle becomes visible, so a crash cannot leave an unrecorded bundle.
    if contents.manifest["dataset"]:
        open_ledger(home).note(_ledger_entry(facts, file_sha256(scratch / bundle.MANIFEST)))


def _approve(
    facts: BundleFacts, approve: Callable[[BundleFacts], "Approval"], home: Path
) -> BundleFacts:
    """Return the facts with their approval, which can take days: the ledger is verified again after it."""
    # `made` follows the approval: it is the time of the bundle.
    approved = replace(facts, approved=(current_user(), approve(facts)), made=now())
    gate.require_sound_ledger(home, facts.book["dataset"])
    return approved


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: exists and is not an empty folder. Name a new one.")


def _written(facts: BundleFacts, folder: Path) -> ExportedBundle:
    """Return what Prefect and MLflow learn of a bundle."""
    report = facts.report
    return ExportedBundle(
        folder=folder,
        hash=file_sha256(folder / bundle.MANIFEST),
        run_id=report.run_id,
        flow_run_id=facts.book.get("prefect_run_id"),
        dataset=facts.book["dataset"],
        epsilon=report.epsilon_spent,
        delta=report.delta,
        made=facts.made,
    )


def _track(home: Path, contents: BundleContents, written: ExportedBundle) -> None:
    """Add the rows and the student to MLflow; if it is away, `wasp push --all` does it later."""
    manifest = contents.manifest
    task = contents.card.name
    uri = manifest["config"].get("tracking", {}).get("mlflow")
    path = "synthetic.parquet"
    # The table of the run also has the public texts that the bundle leaves out.
    if _public_texts(contents) == 0:
        path = str(written.folder / path)
    rows = {
        "path": path,
        # The column `label_best` of the bundle follows from the soft labels; the table of the run lacks it.
        "columns": [name for name in contents.rows if name in contents.texts],
        "name": f"{task}-exported",
        "source": str(written.folder / "synthetic.parquet"),
        "bundle": written.hash,
    }
    name = f"{manifest['flow']}-{task}"
    open_tracked(home, manifest["run_id"], uri).export(name, written.model, rows)


def _public_texts(contents: BundleContents) -> int | None:
    """Return the number of public texts in a bundle; None if its run had no corpus."""
    if contents.manifest["config"].get("public_corpus") is None:
        return None
    return len(contents.texts) - len(contents.written)


def _reads(student: str | None) -> str:
    """Return what the student learned from besides the texts; older files do not state it."""
    if student is None:
        return ""
    return str(json.loads(student).get("reads", ""))


def _checks(facts: BundleFacts) -> Json:
    """Return what the gate found, for the terminal."""
    checks: Json = {"overlap_check": _searched(facts), "audited": bool(facts.audits)}
    warnings = [*gate.warnings_of(facts.report), *facts.findings]
    return checks | {"never_audited": list(facts.never_audited), "warnings": warnings}


def _measured(home: Path, manifest: Json, rows: pd.DataFrame, card: TaskCard) -> Json:
    """Return what the card's recipe reaches on the test rows, or why it was not run; nothing without a recipe."""
    if not card.has_classes:
        return {}
    try:
        return {"reached": measure_recipe(home, manifest, rows, card.label_names)}
    except (PlaceError, MissingPackageError) as error:
        return {"not_run": str(error)}


def _unsearched(manifest: Json, overlap_check: bool) -> str:
    """Return why texts are not searched for passages of private rows; empty if they are."""
    if overlap_check:
        return ""
    if manifest["config"].get("parties"):
        return "only the parties of the run have the private rows and could search (--no-overlap-check)"
    return "the search was switched off (--no-overlap-check)"


def _copy_student(student: Path, folder: Path, config: Json) -> None:
    """Copy a student; add the encoder of one on vectors to its card."""
    shutil.copytree(student, folder)
    card = folder / "student.json"
    if config["student"]["kind"] != "finetune":
        values = json.loads(card.read_text(encoding="utf-8"))
        _write_json(card, values | {"encoder": _encoder(config)})


def _encoder(config: Json) -> str:
    """Return an encoder's model on the Hub; without one, its connector and model in this project."""
    embedder = config["embedder"]
    return encoder_of(config) or f"{embedder['connector']} {embedder['model']}".strip()


def write_json_lines(path: Path, rows: pd.DataFrame) -> None:
    """Write rows with the shortest digits that give the same numbers; pandas would round them to ten decimals."""
    # Through Arrow: both files have the same types and values.
    table = to_arrow(rows, "synthetic.parquet")
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in table.to_pylist())
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_json(path: Path, value: Json) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def check_student(folder: Path) -> Path:
    """Return the folder of a student; refuse files that could execute code when opened, such as pickles."""
    # Allowed types rather than refused ones: a library may add a file type that executes code.
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
    privacy: Json = {"unit": facts.unit, "epsilon_stated": report.epsilon}
    privacy |= {name: getattr(report, name) for name in ("adjacency", "epsilon_exact", *SPENT)}
    return {
        "run_id": report.run_id,
        "flow": report.flow,
        "task": report.task,
        "made": facts.made,
        "license": facts.license,
        "privacy": privacy,
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
    searched: Json = {
        "done": True,
        "words": facts.overlap.words,
        "passed": facts.overlap.passed,
        "mark": facts.overlap.mark,
    }
    if facts.overlap.values:
        searched["values"] = facts.overlap.values
    return searched
