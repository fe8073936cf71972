"""Secrets by reference: a configuration contains only the location of a key."""

import os
import re

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import remember
from connectors.security.secret_patterns import REFERENCE

NO_KEY = "none"
"""Reference for servers without keys."""

CLOSED = ("WASP_", "PREFECT_", "MLFLOW_", "AWS_")
"""Beginnings of variables that no configuration can send to a model's endpoint."""


def variable_of(reference: str, where: str = "key") -> str:
    """Return the environment variable of a reference; '' for 'none'.

    `env:NAME` is the variable NAME. `prefect:some-block` is WASP_SECRET_SOME_BLOCK: a flow loads the Secret block and
    stores its value there. Raises ConfigError for anything else, without repeating it: it could be a key.
    """
    if reference == NO_KEY:
        return ""
    if not isinstance(reference, str) or re.fullmatch(REFERENCE, reference) is None:
        raise ConfigError(
            f"{where} must be a reference to a key: 'env:NAME' (environment variable), 'prefect:block-name' (Secret "
            f"block), or 'none' for a server without keys. Never put a key into a configuration."
        )
    kind, _, name = reference.partition(":")
    # A configuration could otherwise send a credential of this system to an endpoint of its own.
    if kind == "env" and name.startswith(CLOSED):
        raise ConfigError(f"{where}: the variable {name} contains no key of a language model")
    if kind == "env":
        return name
    return "WASP_SECRET_" + name.upper().replace("-", "_")


def is_block(reference: str) -> bool:
    """Return True if a reference names a Secret block of Prefect."""
    return reference.startswith("prefect:")


def read_secret(reference: str, where: str = "key") -> str:
    """Return the value of a reference, empty for 'none'; from then on no message shows it (`redaction`).

    Raises ConfigError with the variable's name if it is not set; the error never contains a value.
    """
    variable = variable_of(reference, where)
    if not variable:
        return ""
    value = os.environ.get(variable, "").strip()
    if value:
        remember(value)
        return value
    if is_block(reference):
        block = reference.partition(":")[2]
        raise ConfigError(
            f"{where}: the Prefect Secret block '{block}' is not loaded. Create it and start a flow run."
        )
    raise ConfigError(
        f"{where}: the environment variable {variable} is not set. Run: export {variable}=..., or use 'none' for "
        f"a server without keys."
    )
