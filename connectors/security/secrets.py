"""Keys by name: a configuration holds where a key lies, never the key."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import remember

NO_KEY = "none"
"""The reference for servers that ask for no key."""

_REFERENCE = re.compile(r"env:(?P<variable>[A-Za-z_][A-Za-z0-9_]*)|prefect:(?P<block>[a-z0-9][a-z0-9-]*)")


@dataclass(frozen=True, slots=True)
class Secret:
    """A key that was read: it shows itself to nobody, in no message, and cannot be pickled."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the key itself; '' where none is needed."""
        return self._value

    def __str__(self) -> str:
        return "***"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("A key is never written down.")


def variable_of(reference: str, where: str = "key") -> str:
    """Return the environment variable that a reference means; '' for 'none'.

    `env:NAME` is the variable NAME itself. `prefect:some-block` is WASP_SECRET_SOME_BLOCK: a flow loads the Secret
    block and puts its value there. Raises ConfigError for anything else, without repeating it: it may be a key.
    """
    if reference == NO_KEY:
        return ""
    match = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if match is None:
        raise ConfigError(
            f"{where} must say where the key lies: 'env:NAME' (environment variable), 'prefect:block-name' (Secret "
            f"block), or 'none' for a server without keys. A key itself must never stand in a configuration."
        )
    return match["variable"] or "WASP_SECRET_" + match["block"].upper().replace("-", "_")


def read_secret(reference: str, where: str = "key") -> Secret:
    """Return the value that a reference leads to, an empty one for 'none'.

    Raises ConfigError that names the variable when it is not set, and never a value.
    """
    variable = variable_of(reference, where)
    if not variable:
        return Secret("")
    value = os.environ.get(variable, "").strip()
    if value:
        remember(value)
        return Secret(value)
    if reference.startswith("prefect:"):
        block = reference.partition(":")[2]
        raise ConfigError(f"{where}: the Prefect Secret block '{block}' was not loaded. Make it, and start a flow run.")
    raise ConfigError(
        f"{where}: the environment variable {variable} is not set. Type: export {variable}=..., or write 'none' for "
        f"a server without keys."
    )
