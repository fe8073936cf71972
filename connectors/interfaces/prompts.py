"""Requests to language models."""

from dataclasses import dataclass, field
from hashlib import sha256

from connectors.interfaces.content_keys import OMITTED_IF_EMPTY, digest


class _Keyed:
    """Room for the key of a prompt, which is no field: it is neither compared, stored nor part of the key."""

    __slots__ = ("_key",)
    _key: str


@dataclass(frozen=True, slots=True)
class Prompt(_Keyed):
    """One request to a language model.

    Vendors receive `text`; embedded models use the other fields, which have the same meaning. `good` and `bad` contain
    only synthetic examples, never private rows. `seed` makes repeated requests distinct. With an `end`, `text` is the
    beginning of a document, which the model continues up to this string.
    """

    text: str
    label: str
    description: str = ""
    attribute: str = ""
    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    max_tokens: int = 256
    seed: int = 0
    end: str = field(default="", metadata=OMITTED_IF_EMPTY)

    @property
    def key(self) -> str:
        """Content key of the request, 64 hexadecimal digits."""
        # Kept, because cache, model and tables of a run all need it. The dataclass is frozen, so `object` sets it.
        try:
            return self._key
        except AttributeError:
            object.__setattr__(self, "_key", digest(self))
            return self._key

    def stream_seed(self, identity: str) -> int:
        """Return the seed, 128 bits, of all draws that a model of this machine makes for this prompt."""
        # With the identity: two models that get the same prompt draw independently.
        return int.from_bytes(sha256((identity + self.key).encode()).digest()[:16], "big")

    @property
    def shown(self) -> tuple[str, ...]:
        """The synthetic texts that `text` contains in addition to the instruction."""
        return (*self.good, *self.bad)


@dataclass(frozen=True, slots=True)
class Cloze(Prompt):
    """A request to rewrite a part of a text.

    In each of `rounds` rounds, masked words of `source` are filled in again. `mask`: share of words masked per round.
    `blanked`: the text with blanks, as `text` shows it to vendors. Models that fill masks themselves read `source`;
    they receive a `label` or an empty one.
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
    """A request for a text that contains `phrases`.

    `good` are examples that a client has released for use in prompts.
    """

    phrases: tuple[str, ...] = ()
