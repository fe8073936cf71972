"""Hand what a command checked before Prefect started to the flow that it calls in this process.

A flow that a server starts, or a cell of a comparison, finds nothing here and checks by itself, by the same functions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Handed:
    """A checked value, and the flow call that it is for."""

    flow: str
    config: Any
    resumes: str | None
    value: Any

    def is_for(self, flow: str, config: Any, resumes: str | None) -> bool:
        return (self.flow, self.resumes) == (flow, resumes) and bool(self.config == config)


_HANDED: ContextVar[_Handed | None] = ContextVar("_HANDED", default=None)


@contextmanager
def handed_over(flow: str, config: Any, resumes: str | None, value: Any) -> Iterator[None]:
    """Hand `value` to the flow if the block calls it with this configuration and run to resume."""
    token = _HANDED.set(_Handed(flow, config, resumes, value))
    try:
        yield
    finally:
        _HANDED.reset(token)


def take(flow: str, config: Any, resumes: str | None = None) -> Any | None:
    """Return what the command handed to this flow call; None without it, and the second time."""
    handed = _HANDED.get()
    if handed is None or not handed.is_for(flow, config, resumes):
        return None
    value = handed.value
    # Once: what a repeated flow would find again may have changed since.
    handed.value = None
    return value
