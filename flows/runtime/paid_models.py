"""Paid models: keys from Prefect Secret blocks, and the vendors' batch APIs."""

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
    """Return the model with its vendor's batch API; ConfigError if there is none."""
    from connectors.models.vendors.batches import BatchModel

    return BatchModel(vendor_of(plm, model), folder, partial(_show_batch, plm.name), plm.batch_seconds)


def vendor_of(plm: Plm, model: LanguageModel) -> VendorModel[Any]:
    """Return the model as a vendor model with a batch API; ConfigError for any other."""
    from connectors.models.vendors.calls import VendorModel

    if not isinstance(model, VendorModel):
        raise ConfigError(
            f"plms '{plm.name}': batch_api is for openai and anthropic, not for '{plm.connector}'. Remove batch_api"
        )
    return model


def _show_batch(plm: str, progress: Progress) -> None:
    display().say(f"batch of {plm:<20} {progress.done}/{progress.total} completed by the vendor")


def load_secret(reference: str) -> None:
    """Copy the value of a Prefect Secret block into the variable WASP_SECRET_<BLOCK>.

    Connectors read the variable, because they do not depend on Prefect and configurations contain no keys. Raises
    ConfigError if the block does not exist.
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
            f"key '{reference}': Prefect has no Secret block '{block}'. Create it in the UI (Blocks), or write "
            "env:NAME for an environment variable"
        ) from None
    os.environ[variable] = str(value.get())  # type: ignore[union-attr]
