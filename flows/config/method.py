"""Typed parameters of the methods: shared fields, and the settings of WASP."""

from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from connectors.interfaces.earlier_names import warn_earlier
from flows.config.form import Rule, Rules, Strict
from tasks.private.training.promise import Training

DEFAULT_VOTES = 8
"""Default number of votes per record (Q)."""
Guidance = Literal["auto", "votes", "kernel"]
DENSITIES = ("auto", "kernel")
"""Values of `guidance` that release at most one density; with others, records vote."""


def declared_earlier(declaring: object, earlier: str, now: str) -> Any:
    """Return what a method of another package declares under a name of earlier versions, and warn; None without it."""
    declared = getattr(declaring, earlier, None)
    if declared is not None:
        warn_earlier(type(declaring).__name__, earlier, now, stacklevel=3)
    return declared


@dataclass(frozen=True, slots=True)
class VotingScheme:
    """Voting scheme of a run.

    Attributes:
        releases: number of votes (releases).
        votes: votes per record (Q).
        sides: 1 for nearest texts, 2 for nearest and furthest.
    """

    releases: int
    votes: int = 1
    sides: int = 1


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """A number of calls, divided equally among models.

    Attributes:
        examples: examples per prompt.
        examples_per_class: examples of each class per prompt, instead of `examples`.
        is_variation: True if the prompt contains a text to vary.
    """

    models: tuple[str, ...]
    count: int
    examples: int = 0
    is_variation: bool = False
    examples_per_class: int = 0


Samples = Annotated[
    int, Field(ge=1, le=10_000_000, description="Number of synthetic texts in the result (N).")
]

MAX_TEXTS_PER_PROMPT = 64
TextsPerPrompt = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_TEXTS_PER_PROMPT,
        # Earlier versions had no such field: at 1 it must not change the id of a run.
        exclude_if=partial(eq, 1),
        description="Consecutive texts of a class from one prompt: they share its examples and attribute and differ in "
        "their seed. More than 1 computes or pays the prompt once for all of them. 1: a draw for each text (papers).",
    ),
]
"""For methods whose prompts show examples drawn at random. Variations and seeded prompts each have another content."""


class AnyMethod(Strict):
    """Settings shared by all methods."""

    first: ClassVar[tuple[str, ...]] = ("samples",)

    iterations: int = Field(5, ge=1, le=100, description="Iterations (T).")
    samples: Samples = 6000

    @property
    def voting(self) -> VotingScheme:
        """Voting scheme; by default one vote per record and iteration (nearest text)."""
        earlier: VotingScheme | None = declared_earlier(self, "casting", "voting")
        return earlier or VotingScheme(self.iterations)

    @property
    def releases_density(self) -> bool:
        """True if the method releases a density of the private data."""
        return False

    @property
    def tuning(self) -> Training | None:
        """DP-SGD training on the private data; None for methods that vote."""
        return None

    @property
    def candidates(self) -> int:
        """Number of candidates in the first vote, over all classes."""
        return self.samples

    @property
    def starts(self) -> dict[str, int]:
        """Text counts by field name; each must be large enough for every model and class."""
        return {"samples": self.samples}

    @property
    def shared_over_rounds(self) -> bool:
        """True if each iteration generates a part of the texts."""
        return False


def texts_per_prompt(method: AnyMethod) -> int:
    """Return how many texts share one draw of examples; 1 for methods without such draws."""
    return int(getattr(method, "texts_per_prompt", 1))


class SingleRound(AnyMethod):
    """Base of methods that write all texts at once, without votes."""

    iterations: Literal[1] = Field(1, description="Fixed: texts are written once.")

    @property
    def voting(self) -> VotingScheme:
        """No votes of private records."""
        earlier: VotingScheme | None = declared_earlier(self, "casting", "voting")
        return earlier or VotingScheme(0)


class RoundsMethod(AnyMethod):
    """Base of methods that generate a part of the texts per iteration.

    Prompts contain examples after the first iteration.
    """

    @property
    def shared_over_rounds(self) -> bool:
        """Each iteration generates N / T texts."""
        return True

    def calls_of(self, writers: tuple[str, ...], examples: int) -> list[PlannedCalls]:
        """Return the calls: no examples in iteration 1, then `examples` per prompt."""
        first = self.samples // self.iterations
        return [PlannedCalls(writers, first), PlannedCalls(writers, self.samples - first, examples)]


class WaspMethod(RoundsMethod):
    """Settings of WASP (Algorithm 1)."""

    votes: int = Field(
        DEFAULT_VOTES,
        ge=1,
        le=32,
        description="Votes per record (Q) for its nearest and for its furthest texts.",
    )
    examples: int = Field(
        8,
        ge=0,
        le=64,
        description="Examples per prompt (S), half of them bad. 0: none; the density weighs models and labels texts.",
        json_schema_extra={"not": {"const": 1}},
    )
    texts_per_prompt: TextsPerPrompt = 1
    contrast: bool = Field(True, description="Show bad examples in addition to good ones.")
    weighting: bool = Field(True, description="Let better models generate more texts.")
    weights_by: Literal["linear", "softmax"] = Field(
        "linear",
        description="Texts per model: proportional to its weight (paper), or to the softmax (paper's code).",
    )
    guidance: Guidance = Field(
        "auto",
        description="Release that guides generation. auto: by the declared number of rows, classes and epsilon, a "
        "density (kernel), or nothing, and the rows stay closed. votes: votes on texts in every iteration but the last "
        "(paper). kernel: one noisy density of the private vectors. `votes` (Q) is for votes only.",
    )

    rules: ClassVar[Rules] = {
        Rule("guidance", DENSITIES, "votes", (DEFAULT_VOTES,)): (
            "votes: {0.votes} has no effect with guidance: {0.guidance}, where private records do not vote. Set "
            "guidance: votes, or remove it"
        ),
        Rule("guidance", DENSITIES, "iterations", {"minimum": 2}): (
            "guidance: {0.guidance} takes effect after the first iteration. Set iterations to 2 or more, or guidance "
            "to votes"
        ),
        Rule("guidance", ("votes",), "examples", {"minimum": 2}): (
            "examples: {0.examples}, but with guidance: votes the best and worst texts guide as examples alone. Set "
            "examples to 2 or more, or guidance to auto"
        ),
        Rule("examples", (0,), "contrast", (True,)): (
            "contrast: false has no effect with examples: 0. Remove it"
        ),
    }

    @field_validator("examples")
    @classmethod
    def _refuse_one_example(cls, value: int) -> int:
        if value == 1:
            raise ValueError("one example cannot be half good and half bad. Write 0 or at least 2")
        return value

    @property
    def releases_density(self) -> bool:
        """True if `guidance` is a density, or may choose one."""
        return self.guidance in DENSITIES

    @property
    def voting(self) -> VotingScheme:
        """T - 1 releases of Q votes on both sides, or a single release of a density."""
        if self.releases_density:
            return VotingScheme(1)
        # T - 1: the texts of the last iteration guide no others, therefore nobody votes on them.
        return VotingScheme(self.iterations - 1, self.votes, 2)

    @property
    def candidates(self) -> int:
        """Number of texts of the first iteration."""
        return self.samples // self.iterations
