"""Models that are paid for: where their keys lie, and how they answer in batches."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import LanguageModel
from flows.config.models import Plm
from flows.runtime.terminal_progress import display

if TYPE_CHECKING:
    from connectors.models.vendors.batch_apis import Progress
    from connectors.models.vendors.calls import VendorModel


def in_batches(plm: Plm, model: LanguageModel, folder: Path) -> LanguageModel:
    """Return the model that asks its vendor in batches; ConfigError for one that has no such API."""
    from connectors.models.vendors.batches import BatchModel

    return BatchModel(vendor_of(plm, model), folder, partial(_tell_batch, plm.name), plm.batch_seconds)


def vendor_of(plm: Plm, model: LanguageModel) -> VendorModel[Any]:
    """Return the model as one of a vendor with a batch API; ConfigError for any other."""
    from connectors.models.vendors.calls import VendorModel

    if not isinstance(model, VendorModel):
        raise ConfigError(f"plms '{plm.name}': batch_api is for openai and anthropic, not for '{plm.connector}'")
    return model


def _tell_batch(plm: str, progress: Progress) -> None:
    display().say(f"batch of {plm:<20} {progress.done}/{progress.total} answered by the vendor")


def load_secret(reference: str) -> None:
    """Put the value of a Prefect Secret block where connectors look for it: the variable WASP_SECRET_<BLOCK>.

    Connectors know nothing of Prefect, and a key stands in no configuration. ConfigError if the block cannot be had.
    """
    kind, _, block = reference.partition(":")
    variable = f"WASP_SECRET_{block.upper().replace('-', '_')}"
    if kind != "prefect" or variable in os.environ:
        return
    from prefect.blocks.system import Secret

    try:
        value = Secret.load(block)
    except ValueError:
        raise ConfigError(
            f"key '{reference}': Prefect has no Secret block '{block}'; make it in the UI (Blocks), or name a variable "
            "of the environment: env:NAME"
        ) from None
    os.environ[variable] = str(value.get())  # type: ignore[union-attr]
