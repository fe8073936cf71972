"""Model folders in the hub's format: files, digests, download.

Embedders and language models use them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import FinalError, TemporaryError

LOADING = threading.RLock()
"""Lets one thread at a time import transformers, which replaces its own module meanwhile, and load a model."""


def files_of(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files below `folder` with one of the suffixes, sorted.

    Exports for other runtimes are left out.
    """
    files = (f for f in folder.rglob("*") if f.suffix in suffixes and f.is_file())
    return sorted(f for f in files if f.relative_to(folder).parts[0] not in ("onnx", "openvino"))


def digest_of(files: Sequence[Path], folder: Path) -> str:
    """Return the SHA-256 of one file, or of the names and SHA-256s of several."""
    if len(files) == 1:
        return file_sha256(files[0])
    return digest({f.relative_to(folder).as_posix(): file_sha256(f) for f in files})


def explain_refusal(error: Exception) -> str:
    """Return why the hub does not give a model to this user, as the end of a sentence; '' for any other error."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return "is gated. Accept its licence on the hub and set HF_TOKEN to a token with access."
    if isinstance(error, errors.RepositoryNotFoundError | errors.RevisionNotFoundError | errors.HFValidationError):
        return "is neither a folder nor on the hub (or HF_TOKEN lacks access). Check it."
    return ""


def download(field: str, model: str, revision: str | None, **patterns: Any) -> Path:
    """Return the folder of a hub model, downloaded unless the hub's local cache has it.

    Raises TemporaryError if the hub is unreachable, FinalError if it does not have the model or refuses access.
    """
    from huggingface_hub import constants, errors, snapshot_download

    title = f"{field}: {model}" + (f" at revision {revision}" if revision else "")
    # Cache first: a run that worked once works without network, on the same weights.
    for local_only in (True,) if constants.is_offline_mode() else (True, False):
        try:
            return Path(snapshot_download(model, revision=revision, local_files_only=local_only, **patterns))
        except (OSError, ValueError, errors.EntryNotFoundError) as error:
            if refusal := explain_refusal(error):
                raise FinalError(f"{title} {refusal}") from error
            if not local_only:
                raise TemporaryError(
                    f"{title}: the hub is unreachable ({type(error).__name__}). Check the network, or download "
                    "the model elsewhere and use its folder."
                ) from error
    raise FinalError(f"{title} is neither a folder nor in the hub's local cache, and the hub is disabled (offline).")
