"""The release gate: what must hold before a bundle is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError, ConfigError, LedgerError, PlaceError, PrivateInputError
from connectors.interfaces.ledger import Look
from flows.catalog import find_flow
from flows.config.files import check_config
from flows.config.paths import rows_ref
from flows.config.task_files import load_task
from flows.config.vocabulary import terms_ref, vocabulary_of
from flows.engine.tools import RunName, RunTools
from flows.runtime.state_folder import who
from flows.runtime.stores import open_ledger
from flows.storage.lost_releases import RELEASES
from flows.storage.release_check import verify
from flows.storage.removal import lost
from tasks.core.refs import Overlap
from tasks.private.diagnostics.overlap import search_copies
from tasks.reporting.report_model import Report, from_json
from tasks.text.prompts import TaskCard, zero_shot

if TYPE_CHECKING:
    import pandas as pd

    from connectors.artifacts.store import Artifacts


def shareable(artifacts: Artifacts, book: dict[str, Any]) -> tuple[dict[str, Any], Report]:
    """Return summary and report of a run that is done, private and whole; ConfigError or ArtifactError if it is not."""
    run_id = book["run_id"]
    summary, report = (artifacts.read_text(f"runs/{run_id}/{name}.json") for name in ("summary", "report"))
    if book["state"] != "done" or summary is None or report is None:
        raise ConfigError(f"Run {run_id} is not finished; type: wasp resume {run_id}")
    values, told = json.loads(summary), from_json(json.loads(report))
    if values["epsilon_spent"] is None or told.not_private:
        raise ConfigError(f"Run {run_id} is NOT PRIVATE (no noise was added); nothing of it can be exported")
    if not artifacts.exists(f"runs/{run_id}/synthetic.parquet") and not values["n_synthetic"]:
        raise ConfigError(
            f"Run {run_id} wrote no texts, so that there is no bundle of it; its student is told in the report"
        )
    gone = lost(artifacts, run_id)
    if gone is not None and gone.result:
        raise ArtifactError(
            f"Run {run_id} has no result to export: {gone}. To make it again: wasp resume {run_id} --respend"
        )
    return values, told


def ledger_head(home: Path, artifacts: Artifacts, dataset: str) -> str:
    """Return the hash of the newest entry of a dataset's book; LedgerError if book or releases do not verify.

    Empty for a run that opened no private row: no book holds it.
    """
    if not dataset:
        return ""
    ledger = open_ledger(home)
    problems = verify(artifacts, ledger, dataset).problems
    if problems:
        raise LedgerError("The budget book does not verify, so nothing is exported: " + "; ".join(problems))
    return ledger.history(dataset)[-1].hash


def search(home: Path, artifacts: Artifacts, book: dict[str, Any], texts: pd.DataFrame) -> Overlap | None:
    """Look for passages of the run's private rows in its texts; None for a run without a release: it opened no row.

    The budget book is told before the rows are opened.
    Raises ConfigError when there are some (PRIVATE-OVERLAP), and when the rows cannot be opened as they were.
    """
    fingerprint = _fingerprint(artifacts, book["run_id"])
    if fingerprint is None:
        return None
    config: Any = check_config(find_flow(book["flow"]).config, book["config"], f"manifest of {book['run_id']}")
    if config.parties is not None:
        raise ConfigError(
            f"Nothing is exported: the private rows of run {book['run_id']} lie with its parties, so the texts cannot "
            "be searched for their passages here. To export without the search, which the bundle then says: "
            "--no-overlap-check"
        )
    tools = RunTools(config, home, RunName(book["run_id"], book["flow"], book["dataset"], fingerprint))
    by_id = dict(zip(texts["sample_id"].tolist(), texts["text"].tolist(), strict=True))
    what, where = "whether texts repeat passages of the private rows", "answer of wasp export, manifest of the bundle"
    open_ledger(home).look(Look(book["dataset"], who(), book["flow"], book["run_id"], what, where))
    try:
        found = search_copies(tools, fingerprint, by_id, list(_public(tools, load_task(config.task))))
    except (PlaceError, PrivateInputError) as error:
        raise ConfigError(
            f"Nothing is exported: the texts cannot be searched for passages of private rows. {error} To export "
            "without the search, which the bundle then says: --no-overlap-check"
        ) from None
    if not found.passed:
        raise ConfigError(
            f"Nothing is exported: a text repeats a run of {found.words} words of a private row (PRIVATE-OVERLAP; this "
            f"answer is {found.mark}). The rows' owner finds which in {found.details}. To export without the search, "
            "which the bundle then says: --no-overlap-check"
        )
    return found


def _fingerprint(artifacts: Artifacts, run_id: str) -> str | None:
    """Return the name of the rows that were used, None if none were; ArtifactError when it cannot be known."""
    releases = artifacts.finished(RELEASES.replace("*", run_id, 1))
    found = {str(release.get("parameters", {}).get("private") or "") for release in releases.values()}
    if len(found) > 1 or "" in found:
        raise ArtifactError(f"Releases of run {run_id} are damaged; read them back: wasp resume {run_id}")
    return found.pop() if found else None


def _public(tools: RunTools, card: TaskCard) -> Iterator[str]:
    """Yield all that everybody may know: the task's words, the prompts made of them, test and public rows."""
    yield from (card.zero_shot, card.contrastive, card.good_only, card.item, card.attribute)
    for label in card.labels:
        yield from (label.name, label.description, " ".join(label.words))
        yield from (zero_shot(card, label.name, value, 0).text for value in card.values or ("",))
    if (vocabulary := vocabulary_of(tools.config)) is not None:
        yield from tools.read_terms(terms_ref(vocabulary, tools.config.data_root))
    for rows in (tools.config.test, tools.config.public, tools.config.few_shot_rows):
        if rows is not None:
            yield from tools.read_rows(rows_ref(rows, tools.config.data_root))["text"].tolist()
