"""Language models: prompts, completions, usage and the protocol that every model implements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from connectors.interfaces.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls cost: `calls` made, tokens in and out, dollars. Usage adds up.

    `estimated_calls`, `estimated_dollars`: the part whose tokens the server did not report.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    estimated_calls: int = 0
    estimated_dollars: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.dollars + other.dollars,
            self.estimated_calls + other.estimated_calls,
            self.estimated_dollars + other.estimated_dollars,
        )


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One language model (PLM) of a configuration: its name in the run, its connector and the connector's options."""

    name: str
    connector: str
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer. `finish_reason`: stop | length | refused | error | exhausted; failed requests are answers too.

    `estimated`: the server did not report all tokens, so they were estimated from bytes, and `dollars` with them.
    """

    text: str
    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    error: str = ""
    estimated: bool = False

    @property
    def usage(self) -> Usage:
        """The cost of this one call."""
        estimated_dollars = self.dollars if self.estimated else 0.0
        counts = (self.tokens_in, self.tokens_out)
        return Usage(1, *counts, self.dollars, int(self.estimated), estimated_dollars)


Keep = Callable[[int, Completion], None]
"""Called with (position in `prompts`, answer) the moment an answer exists, before `complete` returns."""


def keep_nothing(position: int, completion: Completion) -> None:
    """Do nothing with an answer: the default of `LanguageModel.complete`."""


class LanguageModel(Protocol):
    """A language model. `complete` is its whole interface, embedded or paid."""

    @property
    def name(self) -> str:
        """Name in the run, unique among its PLMs."""

    @property
    def identity(self) -> str:
        """Everything that determines an answer besides the prompt: connector, model, version, decoding."""

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; call `keep` for each as it arrives.

        Raises TemporaryError or FinalError when the model as a whole cannot go on.
        """


@dataclass(frozen=True, slots=True)
class Weights:
    """A language model as files on this machine: their folder, and what names their content whatever the decoding."""

    folder: Path
    content: str
