"""Manifests of artifacts: dependencies and content hash, which decide about reuse."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TypeVar

from connectors.artifacts.atomic_files import file_sha256, folder_sha256, write_text_whole
from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.json_values import Json

AnyPath = TypeVar("AnyPath", bound=PurePath)
TICK_NS = 20_000_000
"""Longer than the clock tick of any system's file times."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts of one artifact, which is finished once its manifest is on disk.

    `created` is UTC, ISO 8601.
    """

    step: str
    version: int
    parameters: Mapping[str, object]
    inputs: Mapping[str, str]
    key: str
    sha256: str
    rows: int
    bytes: int
    created: str
    info: Json = field(default_factory=dict)

    def ref(self, path: str, reused: bool = False) -> ArtifactRef:
        """Return the reference that steps exchange."""
        return ArtifactRef(path, self.sha256, self.key, self.step, self.rows, reused)

    def text(self) -> str:
        """Return the manifest as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1, sort_keys=True)


def manifest_path(path: AnyPath) -> AnyPath:
    """Return the path of the manifest of `path`.

    The leading underscore hides it from readers of Parquet folders.
    """
    return path.parent / f"_{path.name}.json"


def content_path(path: AnyPath) -> AnyPath:
    """Return the path of the artifact of a manifest."""
    return path.with_name(path.name[1 : -len(".json")])


def make_manifest(
    key: StepKey, facts: tuple[str, int], rows: int, info: Mapping[str, object]
) -> Manifest:
    """Return the manifest of a file with `facts` (SHA-256, bytes)."""
    return Manifest(
        step=key.step,
        version=key.version,
        parameters=json.loads(canonical(dict(key.parameters))),
        inputs=dict(key.inputs),
        key=key.key,
        sha256=facts[0],
        rows=rows,
        bytes=facts[1],
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        info=json.loads(canonical(dict(info))),
    )


def write_manifest(path: Path, manifest: Manifest, private: bool) -> None:
    """Write the manifest of the artifact at `path`."""
    write_text_whole(manifest_path(path), manifest.text(), private)


def read_manifest(path: Path) -> Manifest | str | None:
    """Return the manifest in a file, None if there is none, or its problem."""
    try:
        return parse_manifest(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"its manifest cannot be read ({error.strerror})"


def parse_manifest(data: bytes) -> Manifest | str:
    """Return the manifest in `data`, or the problem with it."""
    try:
        return Manifest(**json.loads(data))
    except (ValueError, TypeError):
        return "its manifest is damaged"


def content_problem(path: Path, sha256: str) -> str:
    """Return the problem with the content at `path`, '' if its hash is `sha256`."""
    try:
        actual = folder_sha256(path) if path.is_dir() else current_sha256(path)
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        return f"the file cannot be read ({error.strerror})"
    if actual != sha256:
        return "the file is damaged"
    return ""


def require_content(path: Path, sha256: str, shown: str = "") -> None:
    """Raise ArtifactError, with the path or its `shown` location, unless the content has this hash."""
    if problem := content_problem(path, sha256):
        raise ArtifactError(f"{shown or path}: {problem}. Run the step again: wasp resume RUN_ID")


def current_sha256(path: Path) -> str:
    """Return the hash of a file's current content; an unchanged file is hashed once per process.

    A file is identified by inode, size, and change times in nanoseconds. The system sets the change time at every write
    and rename, and programs cannot. Silent disk errors remain undetected, but a second read would not detect them
    either: the pages are in memory since the first. A file that changed within the last clock tick is not cached,
    because a second change could have the same time. Raises OSError if the file does not exist.
    """
    status = path.stat()
    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if time.time_ns() - facts[-1] <= TICK_NS:
        return file_sha256(path)
    return _cached(path, facts)


@lru_cache(100_000)
def _cached(path: Path, facts: tuple[int, ...]) -> str:  # noqa: ARG001 - identifies the content
    # A file that changes during this read has other facts from then on, so that this hash is not found again.
    return file_sha256(path)


def verdict(path: Path, key: StepKey) -> tuple[Manifest | None, str]:
    """Return the manifest of a finished artifact with this key, or None, and why."""
    manifest = read_manifest(manifest_path(path))
    if manifest is None:
        if path.exists():
            return None, "computed because an earlier result was never finished"
        return None, "computed because no earlier result exists"
    if isinstance(manifest, str):
        return None, f"recomputed because {manifest}"
    if manifest.key != key.key:
        # The key is a hash: only the stored parts show what changed.
        stored = asdict(manifest)
        changed = [
            name
            for name, value in asdict(key).items()
            if canonical(value) != canonical(stored[name])
        ]
        return None, f"recomputed because its {' and '.join(changed) or 'key'} changed"
    problem = content_problem(path, manifest.sha256)
    if problem:
        return None, f"recomputed because {problem}"
    return manifest, f"reused because nothing it depends on changed (key {key.key[:12]})"
