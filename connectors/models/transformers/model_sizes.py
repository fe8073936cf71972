"""Sizes of models before they are downloaded or loaded: bytes of files, and of weights in memory."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path

from connectors.interfaces.errors import WaspError
from connectors.interfaces.json_values import Json
from connectors.interfaces.machine import machine_memory
from connectors.interfaces.models import ModelSize
from connectors.models.transformers import smollm2
from connectors.models.transformers.hub_files import (
    cached_whole,
    measure_hub_files,
    read_hub_settings,
    weights_of,
)
from connectors.models.transformers.loading import dtype_of
from connectors.models.transformers.model_checks import device_name, settings_of
from connectors.models.transformers.options import HfOptions

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a weight in each precision."""


def measure_weights(model: str, options: HfOptions, home: Path | None = None) -> ModelSize | None:
    """Return the size of a model's weights on its device.

    None for a bundled model, which is small, and if the hub does not state it. The number of weights is that of the
    bytes of their files in the precision that their settings state.
    """
    if model == "embedded" or model in smollm2.CONTENT:
        return None
    folder: Path | None = Path(model).expanduser()
    if folder is not None and not folder.is_dir():
        folder = cached_whole(model, options.revision)
    download = 0
    is_gated = False
    if folder is not None and (files := weights_of(folder)):
        stored = sum(file.stat().st_size for file in files)
        settings = settings_of(folder)
    else:
        hub = measure_hub_files(model, options.revision)
        if hub is None:
            return None
        stored = hub.weights
        download = hub.bytes
        is_gated = hub.gated
        settings = {}
        with suppress(WaspError):
            settings = read_hub_settings("", model, options.revision)
    device = device_name(options.device)
    weights = stored // BYTES.get(_precision(settings), 4)
    return ModelSize(
        download=download,
        memory=weights * BYTES[dtype_of(options, model, home)],
        device=device,
        available=memory_of(device),
        stays=options.keep_loaded,
        gated=is_gated,
    )


def download_size(model: str, revision: str | None = None) -> int:
    """Return the bytes to download of an encoder or classifier; 0 if it is on this machine or that is unknown."""
    is_here = model in ("", "embedded") or Path(model).expanduser().is_dir()
    if is_here or importlib.util.find_spec("huggingface_hub") is None:
        return 0
    if cached_whole(model, revision):
        return 0
    files = measure_hub_files(model, revision)
    if files is None:
        return 0
    return files.bytes


def memory_of(device: str) -> int:
    """Return the bytes of a device's whole memory; of a processor, those of the machine."""
    import torch

    if device.startswith("cuda"):
        return int(torch.cuda.get_device_properties(device).total_memory)
    return machine_memory()


def hub_folder() -> Path:
    """Return the folder of the hub's local cache."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _precision(settings: Json) -> str:
    # The older name of the field is still in most repositories.
    return str(settings.get("dtype") or settings.get("torch_dtype") or "float32")
