"""Recognise a finished run, of which everything is intact, before Prefect, MLflow and its steps start.

When a run finishes, `finished.json` in its folder records what the result was made with: program, artifacts, pages and
ledger entries. A later start of the same run compares them. Any difference, also a missing or damaged record, lets the
run go its normal way, which reuses or repairs each step by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from connectors.artifacts.store import Artifacts
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.json_values import Json
from connectors.ledger.state import drawn_releases
from flows.catalog import METHODS
from flows.engine.prepare import Prepared
from flows.engine.run_manifest import manifest_config
from flows.runtime.locations import with_locations
from flows.runtime.manifest import (
    RunManifest,
    code_stamp,
    lock_run,
    now,
    read_manifest,
    share_caches,
    versions,
)
from flows.runtime.terminal_progress import display
from flows.storage.removal import load_finished_summary
from tasks.metrics.registry import added_versions

RECORD: Final = "finished.json"
PAGES: Final = ("report.json", "report.html", "summary.json")
"""Files of a finished run that are no artifacts."""


def store_finish(
    artifacts: Artifacts,
    run_id: str,
    folders: Sequence[str],
    vectors: Sequence[ArtifactRef],
    entries: Iterable[str],
) -> None:
    """Record what the result of a run was made with; called when all of its files are written.

    Args:
        artifacts: the store of the run.
        run_id: its id.
        folders: of results beyond the run's own folder.
        vectors: embeddings of its texts, which runs share.
        entries: hashes of its entries in the ledger.
    """
    folder = f"runs/{run_id}"
    stored = artifacts.finished(f"{folder}/**/*")
    for other in folders:
        stored |= artifacts.finished(other)
    digests = {path: str(entry.get("sha256", "")) for path, entry in stored.items()}
    digests |= {ref.path: ref.sha256 for ref in vectors}
    values = {
        "program": _program(),
        "artifacts": digests,
        "pages": _digests_of_pages(artifacts, folder),
        "entries": sorted(set(entries)),
    }
    artifacts.write_text(f"{folder}/{RECORD}", json.dumps(values, indent=1, sort_keys=True))


def load_intact_summary(prepared: Prepared) -> Json | None:
    """Return the summary of a finished run that needs no step; None if it has to run.

    The files of a run that `wasp clean` removed stay removed, as in a run (`load_finished_summary`). Raises ConfigError
    if another process executes the run.
    """
    tools = prepared.tools
    artifacts = tools.artifacts
    run_id = tools.run_id
    # Other machines may change a shared store meanwhile, and only its steps compare both copies.
    if artifacts.address or tools.run_name.flow not in METHODS:
        return None
    if not _is_done(read_manifest(artifacts, run_id)):
        return None
    with share_caches(tools.home), lock_run(tools.home, run_id, tools.ledger):
        # Again, behind the lock: another process may have started it in between.
        manifest = read_manifest(artifacts, run_id)
        if not _is_done(manifest) or not artifacts.exists(f"runs/{run_id}/summary.json"):
            return None
        cleaned = load_finished_summary(artifacts, run_id, tools.config.privacy.respends)
        if cleaned is not None:
            return cleaned
        if not _is_intact(prepared, manifest):
            return None
        summary = json.loads(artifacts.read_text(f"runs/{run_id}/summary.json") or "{}")
        # Its steps try the models again that were down, and write missing texts.
        if summary["degraded"]:
            return None
        # `wasp clean` keeps what was used last.
        resumed = [*manifest.get("resumed", []), now()]
        RunManifest(artifacts, manifest, was_done=True).update(resumed=resumed)
    display().say(f"run {run_id} finished before, and all of its results are intact")
    return with_locations(artifacts, run_id, summary)


def _is_done(manifest: Json) -> bool:
    return manifest.get("state") == "done"


def _is_intact(prepared: Prepared, manifest: Json) -> bool:
    """Return True if the same program would reuse every step, and tracking and ledger have everything."""
    artifacts = prepared.tools.artifacts
    folder = f"runs/{prepared.tools.run_id}"
    try:
        record = json.loads(artifacts.read_text(f"{folder}/{RECORD}") or "{}")
    except ValueError:
        return False
    # In the order of their cost.
    return (
        record.get("program") == _program()
        and manifest["config"] == manifest_config(prepared)
        and manifest["warnings"] == list(prepared.warnings)
        and record["pages"] == _digests_of_pages(artifacts, folder)
        and _is_tracked(prepared)
        and _is_paid(prepared, record["entries"])
        and all(_has_content(artifacts, *artifact) for artifact in record["artifacts"].items())
    )


def _program() -> Json:
    """Return what decides about the code and the packages that made a result, as JSON."""
    return {"code": code_stamp(), "versions": versions(), "metrics": added_versions()}


def _digests_of_pages(artifacts: Artifacts, folder: str) -> Json:
    texts = {name: artifacts.read_text(f"{folder}/{name}") for name in PAGES}
    return {
        name: None if text is None else sha256(text.encode()).hexdigest()
        for name, text in texts.items()
    }


def _is_tracked(prepared: Prepared) -> bool:
    """Return True if MLflow has everything of the run; False also where only MLflow itself could tell."""
    tracker = prepared.tools.tracker
    return tracker.has_results and tracker.is_sent and tracker.is_stored_here()


def _is_paid(prepared: Prepared, entries: Iterable[str]) -> bool:
    """Return True if the ledger has the releases of the result, and no other one of this run."""
    name = prepared.tools.run_name
    if not name.dataset:
        return True
    history = drawn_releases(prepared.tools.ledger.history(name.dataset))
    own = {entry.hash for entry in history if entry.run_id == name.run_id}
    return own <= set(entries) <= {entry.hash for entry in history}


def _has_content(artifacts: Artifacts, path: str, digest: str) -> bool:
    """Return True if the artifact at `path` is finished, and its content has this digest."""
    try:
        # Its manifest names the content, which `fetch` hashes.
        location = artifacts.fetch(path)
        artifacts.read_folder(ArtifactRef(path, digest, "", "", 0))
    except ArtifactError:
        return False
    return location.exists()
