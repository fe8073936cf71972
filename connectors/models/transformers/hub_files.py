"""Model folders in the hub's format: files, digests, download.

Embedders and language models use them.
"""

import fnmatch
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError, FinalError, TemporaryError, WaspError
from connectors.interfaces.json_values import Json

LOADING = threading.RLock()
"""Lets one thread at a time import transformers, which replaces its own module meanwhile, and load a model."""
HUB_SECONDS = 10.0
"""Longest time to wait for an answer of the hub about a model."""
ENTRY_FILE = "config.json"
"""A file that every usable model has: its settings."""
WEIGHTS = "*.safetensors"
OLDER_WEIGHTS = "pytorch_model*.bin"
SETTINGS = ("*.json", "*.txt", "*.model", "*.jinja")
"""Patterns of the files that are downloaded of a model; the older weights only if it has no others."""


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


def weights_of(folder: Path) -> list[Path]:
    """Return the weight files of a model: safetensors, else PyTorch's own, of which only the weights are read."""
    older = [file for file in files_of(folder, (".bin",)) if file.name.startswith("pytorch_model")]
    return files_of(folder, (".safetensors",)) or older


def is_whole(folder: Path) -> bool:
    """Return False for the folder of a model without weights, or without a file of them that another file names.

    So it is where a program has opened the tokenizer of a model alone, or an older library was interrupted.
    """
    weights = weights_of(folder)
    if (folder / ENTRY_FILE).exists():
        # These settings are of weights in the same folder. A sentence encoder may have more of both in its subfolders.
        weights = [file for file in weights if file.parent == folder]
    kinds = {file.suffix for file in weights}
    parts = {
        part
        for kind in kinds
        for index in folder.glob(f"*{kind}.index.json")
        for part in json.loads(index.read_text()).get("weight_map", {}).values()
    }
    return bool(weights) and all((folder / part).exists() for part in parts)


def cached(model: str, revision: str | None, **patterns: Any) -> Path | None:
    """Return the folder of a model in the hub's local cache, None if it has none; it may lack files."""
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, local_files_only=True, **patterns))
    except (OSError, ValueError, errors.EntryNotFoundError):
        return None


def cached_whole(model: str, revision: str | None) -> Path | None:
    """Return the folder of a model that the hub's local cache has with all of its weights, else None."""
    folder = cached(model, revision)
    if folder is None or not is_whole(folder):
        return None
    return folder


def download(field: str, model: str, revision: str | None, **patterns: Any) -> Path:
    """Return the folder of a hub model, downloaded unless the hub's local cache has all of it.

    An interrupted download continues. Raises TemporaryError if the hub is unreachable, FinalError if it does not have
    the model or refuses access.
    """
    from huggingface_hub import HfApi, snapshot_download

    # Cache first: a run that worked once works without network, on the same weights.
    folder = cached(model, revision, **patterns)
    if folder is not None and is_whole(folder):
        return folder
    with hub_errors(field, model, revision, FinalError, TemporaryError):
        if folder is not None:
            # The name of the folder is the commit of the files that it has.
            revision = folder.name
            # Without an answer of the hub, the next call would return the folder without the missing files.
            HfApi().model_info(model, revision=revision, timeout=HUB_SECONDS)
        return Path(snapshot_download(model, revision=revision, **patterns))


def read_hub_settings(field: str, model: str, revision: str | None) -> Json:
    """Return the settings (config.json) of a model on the hub, without storing them.

    Raises ConfigError if the hub does not have the model, refuses access or is unreachable.
    """
    with hub_errors(field, model, revision, ConfigError, ConfigError):
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils import (  # type: ignore[attr-defined]
            build_hf_headers,
            hf_raise_for_status,
        )

        # Not `hf_hub_download`: a cache with this file alone looks like that of a downloaded model.
        response = get_session().get(
            hf_hub_url(model, ENTRY_FILE, revision=revision),
            headers=build_hf_headers(),
            timeout=HUB_SECONDS,
        )
        hf_raise_for_status(response)
        text = response.text
    try:
        settings = json.loads(text)
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise ConfigError(
            f"{field}: '{model}' has no readable {ENTRY_FILE} on the hub. Use another model."
        )
    return settings


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files of a model on the hub: bytes to download, bytes of its weights among them, True if it is gated."""

    bytes: int
    weights: int
    gated: bool


def measure_hub_files(model: str, revision: str | None) -> HubFiles | None:
    """Return the sizes of a model's files on the hub that would be downloaded; None if the hub does not state them."""
    with suppress(WaspError), hub_errors("", model, revision, ConfigError, ConfigError):
        from huggingface_hub import HfApi

        info = HfApi().model_info(
            model, revision=revision, files_metadata=True, timeout=HUB_SECONDS
        )
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        pattern = WEIGHTS
        if not fnmatch.filter(sizes, WEIGHTS):
            pattern = OLDER_WEIGHTS
        weights = sum(sizes[name] for name in fnmatch.filter(sizes, pattern))
        others = {name for kind in SETTINGS for name in fnmatch.filter(sizes, kind)}
        return HubFiles(
            weights + sum(sizes[name] for name in others),
            weights,
            bool(getattr(info, "gated", False)),
        )
    return None


@contextmanager
def hub_errors(
    field: str,
    model: str,
    revision: str | None,
    refused: type[WaspError],
    unreachable: type[WaspError],
) -> Iterator[None]:
    """Explain why the hub does not give a model that is neither a folder nor in its local cache."""
    from huggingface_hub import constants, errors, hf_hub_url

    title = f"{field}: '{model}'"
    if revision:
        title += f" at revision {revision}"
    try:
        hf_hub_url(model, "config.json")
    except errors.HFValidationError:
        raise refused(f"{title} is neither a folder nor a hub id. Use one of them.") from None
    if constants.is_offline_mode():
        raise refused(
            f"{_missing(title, model, revision)}, and the hub is disabled (offline). Use a folder, or download the "
            f"model with a network: hf download {model}"
        )
    try:
        yield
    except errors.GatedRepoError as error:
        advice = "Accept its licence on the hub and set HF_TOKEN to a token with access."
        raise refused(f"{title} is gated. {advice}") from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        problem = "is neither a folder nor on the hub (or HF_TOKEN lacks access). Check it."
        raise refused(f"{title} {problem}") from error
    except errors.RemoteEntryNotFoundError as error:
        raise refused(f"{title} on the hub is not for transformers. Use another.") from error
    except Exception as error:
        # The hub's client passes on errors of its HTTP library.
        raise unreachable(
            f"{_missing(title, model, revision)}, and the hub is unreachable ({type(error).__name__}). Check the "
            "network, or use a folder."
        ) from error


def _missing(title: str, model: str, revision: str | None) -> str:
    if cached(model, revision) is None:
        return f"{title} is neither a folder nor in the hub's local cache"
    return f"{title} is only in part in the hub's local cache"
