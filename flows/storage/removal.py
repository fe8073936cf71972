"""Removes what the rules chose, and knows afterwards what a run would have to make again.

What goes is written down before the first file goes, so that a death in between leaves no run that fails without a
reason: what was noted and still lies there counts as there.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.artifacts.atomic_files import explained, write_text_whole
from connectors.artifacts.manifests import manifest_path
from connectors.interfaces.errors import ConfigError, LostArtifactsError
from flows.runtime.manifest import held_here, now, read_book
from flows.runtime.terminal_progress import display
from flows.storage import inventory as kinds
from flows.storage.inventory import read_json
from flows.storage.retention import REMOVED, Going

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts


def remove(home: Path, going: Sequence[Going]) -> list[Going]:
    """Remove what was chosen and return it, less what a run that started meanwhile holds."""
    gone: list[Going] = []
    for run_id in sorted({one.run_id for one in going}):
        mine = [one for one in going if one.run_id == run_id]
        with ExitStack() as stack:
            if run_id:
                try:
                    stack.enter_context(held_here(home, run_id))
                except ConfigError:
                    continue
            _note(home, mine)
            for one in mine:
                _remove(home, one)
        gone += mine
    return gone


def _note(home: Path, going: Sequence[Going]) -> None:
    """Write into each run's folder what it is about to lose."""
    losing: dict[str, list[str]] = {}
    for one in going:
        for run_id in (one.run_id, *one.users):
            if run_id and one.kind != kinds.LEFTOVERS:
                losing.setdefault(run_id, []).append(one.path)
    for run_id, paths in losing.items():
        place = home / "runs" / run_id / REMOVED
        noted = read_json(place) | dict.fromkeys(paths, now())
        write_text_whole(place, json.dumps(noted, indent=1, sort_keys=True))


def _remove(home: Path, one: Going) -> None:
    place = home / one.path
    if one.before is not None:
        from connectors.models.base.completion_store import CompletionStore

        CompletionStore(place).forget(one.before)
        return
    with explained(place):
        if place.is_dir():
            scratch = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
            place.replace(scratch)
            shutil.rmtree(scratch)
        elif one.kind == kinds.EMBEDDINGS:
            manifest_path(place).unlink(missing_ok=True)
        place.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Lost:
    """What a run lost to `wasp clean` and has not made again: `answers` were asked of models for the `texts`."""

    when: str
    texts: int
    answers: int
    dollars: float
    models: tuple[str, ...]
    embeddings: int
    result: bool

    def __str__(self) -> str:
        parts = [f"{self.texts} texts by {', '.join(self.models)} ({self.answers} answers)"] if self.texts else []
        parts += [f"the embeddings of {self.embeddings} tables"] if self.embeddings else []
        parts += ["synthetic rows and student"] if self.result else []
        return f"wasp clean removed {', '.join(parts)} on {self.when[:10]}"


def lost(artifacts: Artifacts, run_id: str) -> Lost | None:
    """Return what a run lost to `wasp clean`, None when everything is there.

    What this machine removed of its own copies is there while a shared store has it.
    """
    noted = read_json(artifacts.home / "runs" / run_id / REMOVED)
    missing = [path for path in sorted(noted) if not artifacts.exists(path)]
    if not missing:
        return None
    samples = [path for path in missing if path.endswith("samples.parquet")]
    manifests = [manifest for path in samples for manifest in artifacts.finished(escape(path)).values() if manifest]
    usage = [manifest["info"].get("usage", {}) for manifest in manifests]
    return Lost(
        when=max(noted[path] for path in missing),
        texts=sum(manifest["rows"] for manifest in manifests),
        answers=sum(one.get("calls", 0) for one in usage),
        dollars=sum(one.get("dollars", 0.0) for one in usage),
        models=tuple(sorted({Path(path).parent.name.removeprefix("plm=") for path in samples})),
        embeddings=sum(path.startswith("embeddings/") for path in missing),
        result=any(path.endswith("synthetic.parquet") for path in missing),
    )


def standing(artifacts: Artifacts, run_id: str, respend: bool) -> dict[str, Any] | None:
    """Return the summary of a finished run that was cleaned: it stands, and nothing is made again for it.

    None: the run goes on as usual. Raises LostArtifactsError for an unfinished run that lost its texts. With `respend`
    (privacy.on_lost_artifacts) everything that is missing is made again.
    """
    gone = lost(artifacts, run_id)
    if gone is None or respend:
        return None
    summary = artifacts.read_text(f"runs/{run_id}/summary.json")
    if read_book(artifacts, run_id).get("state") == "done" and summary is not None:
        note = f"{gone}; the finished run stands as it is. To make it again: wasp resume {run_id} --respend"
        display().say(note)
        found: dict[str, Any] = json.loads(summary)
        return found | {"removed": note}
    if gone.texts:
        raise LostArtifactsError(
            f"Run {run_id} is not finished, and {gone}. To go on, the models would be asked for them again (they cost "
            f"{gone.dollars:.4f} dollars; answers that are still kept cost nothing), and votes on them are read back "
            "from the budget book only if the same texts come, else they are paid again. Nothing was asked or spent. "
            f"To do it: wasp resume {run_id} --respend. To give the run up: wasp abandon {run_id}"
        )
    display().say(f"{gone}; they are computed again, nothing is asked or spent")
    return None
