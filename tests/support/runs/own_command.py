"""The command in the process of a test, at a terminal or without one."""

import io
from collections.abc import Callable
from typing import NamedTuple


class Terminal(io.StringIO):
    """Standard input of a person."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class Done(NamedTuple):
    """Exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


Wasp = Callable[..., Done]
