"""What a language model is asked."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.interfaces.content_keys import digest


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. `text` is what a vendor receives; the other fields say the same to embedded models.

    `good` and `bad` are synthetic examples only, never private rows. `seed` makes repeated requests distinct.
    """

    text: str
    label: str
    description: str = ""
    attribute: str = ""
    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    max_tokens: int = 256
    seed: int = 0

    @property
    def key(self) -> str:
        """Content key of the request, 64 hexadecimal digits."""
        return digest(self)

    @property
    def shown(self) -> tuple[str, ...]:
        """The synthetic texts that stand in `text` beside the instruction."""
        return (*self.good, *self.bad)


@dataclass(frozen=True, slots=True)
class Cloze(Prompt):
    """A request to write a text anew in part: words of `source` are masked and filled in again, `rounds` times.

    `mask`: share of the words that is masked in each round. `blanked`: the text with blanks, as `text` shows it to
    vendors. Models that fill masks themselves read `source`; a `label` is named to them or empty.
    """

    source: str = ""
    blanked: str = ""
    mask: float = 0.5
    rounds: int = 1

    @property
    def shown(self) -> tuple[str, ...]:
        """The text with blanks."""
        return (self.blanked,)


@dataclass(frozen=True, slots=True)
class Seeded(Prompt):
    """A request for a text that contains `phrases`; `good` are examples that a client gave away for prompts."""

    phrases: tuple[str, ...] = ()
