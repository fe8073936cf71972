"""Removes the files selected for removal, and reports the files a run has lost.

The paths are recorded before the first file is removed. After a crash in between, no run fails without an explanation:
a recorded file that still exists counts as present.
"""

import json
import secrets
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from connectors.artifacts.atomic_files import explained, write_text_whole
from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ConfigError, LostArtifactsError
from connectors.interfaces.json_values import Json
from connectors.models.base.completion_store import CompletionStore
from flows.runtime.locations import with_locations
from flows.runtime.manifest import lock_run_files, now, read_manifest
from flows.runtime.terminal_progress import display
from flows.storage.retention import LEFTOVERS, REMOVED, Item, read_json


def remove(home: Path, going: Sequence[Item]) -> list[Item]:
    """Remove the selected items and return them, except items of a running run."""
    removed: list[Item] = []
    for run_id in sorted({item.run_id for item in going}):
        items = [item for item in going if item.run_id == run_id]
        with ExitStack() as stack:
            if run_id:
                try:
                    stack.enter_context(lock_run_files(home, run_id))
                except ConfigError:
                    continue
            # Recorded before the first file goes, see the module's docstring.
            _record(home, run_id, items)
            for item in items:
                _remove(home, item)
        removed += items
    return removed


def _record(home: Path, run_id: str, items: Sequence[Item]) -> None:
    """Record in a run's folder which of its files are removed."""
    paths = [item.path for item in items if item.kind != LEFTOVERS]
    if run_id and paths:
        file = home / "runs" / run_id / REMOVED
        recorded = read_json(file) | dict.fromkeys(paths, now())
        write_text_whole(file, json.dumps(recorded, indent=1, sort_keys=True))


def _remove(home: Path, item: Item) -> None:
    path = home / item.path
    if item.before is not None:
        CompletionStore(path).forget(item.before)
        return
    with explained(path):
        if path.is_dir():
            scratch = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
            # A crash in the middle leaves a scratch folder, which the next cleanup removes, not half an artifact.
            path.replace(scratch)
            shutil.rmtree(scratch)
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Lost:
    """Files that `wasp clean` removed from a run and the run has not restored.

    Attributes:
        dollars: cost of the `texts`.
        result: True if synthetic rows or student are missing.
    """

    when: str
    texts: int
    dollars: float
    models: tuple[str, ...]
    result: bool

    def __str__(self) -> str:
        parts = []
        if self.texts:
            parts.append(f"{self.texts} texts by {', '.join(self.models)}")
        if self.result:
            parts.append("synthetic rows and student")
        return f"wasp clean removed {', '.join(parts)} on {self.when[:10]}"


def lost(artifacts: Artifacts, run_id: str) -> Lost | None:
    """Return the files that `wasp clean` removed from a run; None if none are missing.

    A local copy that was removed is not missing while a shared store contains it. Embeddings, which earlier versions
    recorded too, are computed again.
    """
    recorded = read_json(artifacts.home / "runs" / run_id / REMOVED)
    names = (path for path in sorted(recorded) if not path.startswith("embeddings/"))
    missing = [path for path in names if not artifacts.exists(path)]
    if not missing:
        return None
    samples = [path for path in missing if path.endswith("samples.parquet")]
    # The description of an artifact stays when its rows are removed: it has their number and cost.
    stored = [artifacts.finished(escape(path)) for path in samples]
    manifests = [manifest for by_path in stored for manifest in by_path.values() if manifest]
    usage = [manifest["info"].get("usage", {}) for manifest in manifests]
    return Lost(
        when=max(recorded[path] for path in missing),
        texts=sum(manifest["rows"] for manifest in manifests),
        dollars=sum(entry.get("dollars", 0.0) for entry in usage),
        models=tuple(sorted({Path(path).parent.name.removeprefix("plm=") for path in samples})),
        result=any(path.endswith("synthetic.parquet") for path in missing),
    )


def load_finished_summary(artifacts: Artifacts, run_id: str, respend: bool) -> Json | None:
    """Return the summary of a finished run that was cleaned; None for any other run.

    A cleaned run stays finished, and its files are not restored. With `respend` (privacy.on_lost_artifacts) all missing
    files are generated again.

    Raises:
        LostArtifactsError: the run is not finished and its texts were removed.
    """
    losses = lost(artifacts, run_id)
    if losses is None or respend:
        return None
    summary = artifacts.read_text(f"runs/{run_id}/summary.json")
    if read_manifest(artifacts, run_id).get("state") == "done" and summary is not None:
        note = f"{losses}. The run stays finished. To generate them again: wasp resume {run_id} --respend"
        display().say(note)
        values: Json = json.loads(summary)
        return with_locations(artifacts, run_id, values) | {"removed": note}
    if losses.texts:
        raise LostArtifactsError(
            f"Run {run_id} is not finished, and {losses}. To resume, the models must generate the texts again. They "
            f"cost {losses.dollars:.4f} dollars (cached completions are free). Votes on them are reused from the "
            "privacy ledger only if the texts are the same, else they are paid again. Nothing was generated or spent. "
            f"To continue: wasp resume {run_id} --respend. To give up the run: wasp abandon {run_id}"
        )
    display().say(f"{losses}. They are computed again, without calls or costs")
    return None
