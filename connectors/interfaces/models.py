"""Language models: prompts, completions, usage and the model protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from connectors.interfaces.json_values import Json
from connectors.interfaces.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of calls: their number, tokens in and out, dollars. Can be summed.

    `estimated_calls`, `estimated_dollars`: the part whose tokens the server did not report.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    estimated_calls: int = 0
    estimated_dollars: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        # Field by field: `astuple` copies deeply, and every answer of a run is added.
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
    """A language model of a configuration: its name in the run, connector and options.

    `home`: the state folder, for files that a connector converts once.
    """

    name: str
    connector: str
    model: str = ""
    options: Json = field(default_factory=dict)
    home: Path | None = None


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Bytes of a model that runs on this machine: files to download, and weights in the memory of its device.

    `device`: name of the device; `available`: bytes of its whole memory. `stays`: the weights stay in memory while
    other models write. `gated`: the model's licence was accepted by its user.
    """

    download: int
    memory: int
    device: str
    available: int
    stays: bool = True
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion. `finish_reason`: stop | length | refused | error | exhausted.

    Failed requests have a completion too. `estimated`: the server did not report all tokens; they and `dollars` are
    estimated from bytes. `request_id`, `served_model`: as the server names them, empty if it does not; not read back
    from the cache.
    """

    text: str
    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    error: str = ""
    estimated: bool = False
    request_id: str = field(default="", compare=False)
    served_model: str = field(default="", compare=False)

    @property
    def usage(self) -> Usage:
        """The cost of this call."""
        usage = Usage(1, self.tokens_in, self.tokens_out, self.dollars)
        if self.estimated:
            usage = replace(usage, estimated_calls=1, estimated_dollars=self.dollars)
        return usage


Keep = Callable[[int, Completion], None]
"""Called with (position in `prompts`, completion) as soon as a completion arrives, before `complete` returns."""


def keep_nothing(position: int, completion: Completion) -> None:
    """Ignore a completion: the default of `LanguageModel.complete`."""


class LanguageModel(Protocol):
    """A language model, embedded or paid; `complete` is its whole interface."""

    @property
    def name(self) -> str:
        """Name of the model, unique in the run."""

    @property
    def identity(self) -> str:
        """All settings besides the prompt that affect a completion.

        They are connector, model, version and decoding.
        """

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; call `keep` for each as it arrives.

        Raises TemporaryError or FinalError if the whole model fails.
        """


@dataclass(frozen=True, slots=True)
class Weights:
    """A language model in files on this machine.

    `content` identifies the files' content, independent of the decoding.
    """

    folder: Path
    content: str
