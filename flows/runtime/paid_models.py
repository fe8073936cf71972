"""Keys of paid models from Prefect Secret blocks."""

from __future__ import annotations

import os

from connectors.interfaces.errors import ConfigError


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
