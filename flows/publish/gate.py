"""Release gate: checks that must pass before a bundle is written."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from connectors.artifacts.store import Artifacts
from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import (
    ArtifactError,
    AuditError,
    ConfigError,
    LedgerError,
    PlaceError,
    PrivateInputError,
)
from connectors.interfaces.json_values import Json
from connectors.ledger.state import LOOK, Entry
from flows.catalog import find_flow
from flows.config.files import read_stored
from flows.config.paths import terms_ref, vocabulary_of
from flows.config.task_files import load_task
from flows.engine.audit_findings import AuditLine, audits_of_releases
from flows.engine.prepare import guarantee_of, public_texts
from flows.engine.spending import RELEASES
from flows.engine.tools import RunName, RunTools
from flows.runtime.state_folder import current_user
from flows.runtime.stores import open_ledger
from flows.storage.removal import lost
from tasks.accounting.composition import second_opinion
from tasks.private.release import audits_of
from tasks.private.rows.overlap import search_copies
from tasks.reporting.run_record import RunRecord, from_json
from tasks.reporting.run_summary import RunSummary
from tasks.steps.values import Overlap
from tasks.writing.prompts import TaskCard, zero_shot

STANDARD_SENTENCES = (
    "Passages of public rows are no copies: if these are standard sentences without personal data, such as a form's, "
    "write them as rows of `public:` and run again; a release that exists costs nothing."
)
"""The way out if records and texts share boilerplate."""


def shareable(artifacts: Artifacts, manifest: Json) -> tuple[RunSummary, RunRecord]:
    """Return summary and report.

    Raises ConfigError or ArtifactError if a run is unfinished, not private or incomplete.
    """
    run_id = manifest["run_id"]
    summary = artifacts.read_text(f"runs/{run_id}/summary.json")
    report = artifacts.read_text(f"runs/{run_id}/report.json")
    if manifest["state"] != "done" or summary is None or report is None:
        raise ConfigError(f"Run {run_id} is not finished. Resume it with: wasp resume {run_id}")
    values = RunSummary.from_json(json.loads(summary))
    parsed = from_json(json.loads(report))
    if values.epsilon_spent is None or parsed.not_private:
        raise ConfigError(
            f"Run {run_id} is NOT PRIVATE (no noise was added). It cannot be exported."
        )
    # A missing file of a run with texts is reported below, with the command that restores it.
    if not artifacts.exists(f"runs/{run_id}/synthetic.parquet") and not values.n_synthetic:
        raise ConfigError(
            f"Run {run_id} has no synthetic texts to export. See its report for the student."
        )
    # Without its dataset no ledger entry would be checked, and the export would not be recorded.
    if parsed.releases and not manifest["dataset"]:
        raise ArtifactError(
            f"{artifacts.where(f'runs/{run_id}/manifest.json')}: has no dataset, but the run's report has "
            f"{parsed.releases} releases. Restore the file from a backup. Nothing was exported."
        )
    removed = lost(artifacts, run_id)
    if removed is not None and removed.result:
        raise ArtifactError(
            f"Run {run_id} has no result to export: {removed}. Create it again with: wasp resume {run_id} --respend"
        )
    return values, parsed


def warnings_of(report: RunRecord) -> list[str]:
    """Return why the texts of a run may be useless."""
    warnings = []
    if report.stubs:
        warnings.append(report.stub_warning)
    if report.usefulness:
        warnings += report.usefulness.warnings
    return warnings


def require_no_red_audit(
    artifacts: Artifacts, manifest: Json
) -> tuple[tuple[AuditLine, ...], tuple[str, ...]]:
    """Return the newest audits of a run's noise, and the names of its releases that were never audited.

    Raises AuditError if one of them failed.
    """
    config: Any = read_stored(find_flow(manifest["flow"]).config, manifest)
    audits, never = audits_of_releases(artifacts, audits_of(guarantee_of(config)))
    for audit in audits:
        if not audit.passed:
            raise AuditError(
                f"Nothing was exported: audit {audit.run_id} of {audit.ended[:10]} is red for the noise of this run "
                f"({audit.mechanism}: epsilon {audit.claimed:.4f} is claimed, at least {audit.proven:.4f} was proven, "
                f"or noise was reused). Show the findings with: wasp show {audit.run_id}. Fix the noise, start a "
                "new run (released noise cannot be repaired) and audit again: wasp audit NAME"
            )
    return audits, never


def require_sound_ledger(home: Path, dataset: str) -> None:
    """Raise LedgerError if the ledger of a dataset does not verify; a run without private rows has no dataset."""
    if not dataset:
        return
    problems = open_ledger(home).verify(dataset, second=second_opinion)
    if problems:
        raise LedgerError(
            "The privacy ledger does not verify, so nothing was exported: " + "; ".join(problems)
        )


def search(home: Path, artifacts: Artifacts, manifest: Json, texts: pd.DataFrame) -> Overlap | None:
    """Search the texts for passages of the run's private rows; None for a run without a private dataset.

    The ledger records the access before the rows are opened; equal texts of a run are searched once. Raises ConfigError
    if there are such passages (PRIVATE-OVERLAP), and if the rows changed or cannot be opened; ArtifactError if the
    run's releases, which name its rows, are missing.
    """
    if not manifest["dataset"]:
        return None
    config: Any = read_stored(find_flow(manifest["flow"]).config, manifest)
    if config.parties is not None:
        raise ConfigError(
            f"Nothing was exported: only the parties of run {manifest['run_id']} have its private rows, so the "
            "texts cannot be searched for copied passages. To export without the search (recorded in the bundle), use "
            "--no-overlap-check."
        )
    fingerprint = _fingerprint(artifacts, manifest)
    name = RunName(manifest["run_id"], manifest["flow"], manifest["dataset"], fingerprint)
    tools = RunTools(config, home, name)
    by_id = dict(zip(texts["sample_id"].tolist(), texts["text"].tolist(), strict=True))
    what = "whether texts repeat passages of the private rows"
    where = "answer of wasp export, manifest of the bundle"
    run = (current_user(), manifest["flow"], manifest["run_id"])
    # The slot names the texts: a repeated export of the same texts reveals nothing new.
    slot = f"search {digest({str(sample): text for sample, text in by_id.items()})[:16]}"
    detail = canonical({"what": what, "where": where})
    open_ledger(home).note(Entry(manifest["dataset"], LOOK, *run, slot, detail_json=detail))
    try:
        # Passages of public texts are no copies, therefore all of them are needed.
        card = load_task(config.task)
        public = list(_public(tools, card))
        overlap = search_copies(tools, fingerprint, by_id, public, card.form)
    except (PlaceError, PrivateInputError) as error:
        raise ConfigError(
            f"Nothing was exported: the texts cannot be searched for passages of private rows. {error} To export "
            "without the search (recorded in the bundle), use --no-overlap-check."
        ) from None
    if not overlap.passed:
        raise ConfigError(
            f"Nothing was exported: a text repeats {overlap.passage} of a private row "
            f"(PRIVATE-OVERLAP; this result is {overlap.mark}). Details for the owner of the rows: {overlap.details}. "
            f"{STANDARD_SENTENCES} To export without the search (recorded in the bundle), use --no-overlap-check."
        )
    return overlap


def _fingerprint(artifacts: Artifacts, manifest: Json) -> str:
    """Return the fingerprint of the run's private rows; ArtifactError if no release has it, or if several differ."""
    run_id = manifest["run_id"]
    releases = artifacts.finished(RELEASES.replace("*", run_id, 1))
    fingerprints = {
        str(release.get("parameters", {}).get("private") or "") for release in releases.values()
    }
    # From the releases rather than from the rows as they are now: the search must open what the run opened.
    if len(fingerprints) != 1 or "" in fingerprints:
        raise ArtifactError(
            f"{artifacts.where(f'runs/{run_id}')}: the run opened private rows of dataset '{manifest['dataset']}', and "
            f"the files of its releases are {'damaged' if fingerprints else 'missing'}, so its texts cannot be "
            "searched for passages of these rows. Restore them from the ledger, without a charge: "
            f"wasp resume {run_id}"
        )
    return fingerprints.pop()


def _public(tools: RunTools, card: TaskCard) -> Iterator[str]:
    """Yield all public texts: task, prompts, vocabulary, test and public rows."""
    yield from (card.zero_shot, card.contrastive, card.good_only, card.item, card.attribute)
    yield from (card.example, card.good_only_example)
    for label in card.labels:
        yield from (label.name, label.description, " ".join(label.words))
        yield from (zero_shot(card, label.name, value, 0).text for value in card.values or ("",))
    if (vocabulary := vocabulary_of(tools.config)) is not None:
        yield from tools.read_terms(terms_ref(vocabulary, tools.config.data_root))
    yield from public_texts(tools)
