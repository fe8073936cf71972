"""Typed parameters of the methods: what all have in common, and WASP's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Literal, Self

from pydantic import Field, model_validator

from flows.config.form import Strict, rule
from tasks.accounting.dp_sgd import Training
from tasks.accounting.sensitivity import MOST_CHOICE_SHARE
from tasks.density.kernels import Kernel, KernelName

COUNTS_SHARE = 0.15
"""Part of a release's loss (mu squared) that counts of first choices have where nothing else is said: 10 to 20 % do."""

KEEP = 0.75
"""Part of all texts that a matched final set keeps where nothing else is said."""


Guidance = Literal["votes", "votes_smoothed", "kernel", "subspace", "clusters"]
DENSITIES = ("kernel", "subspace", "clusters")
"""Choices of guidance that release one density; in the others rows vote."""


@dataclass(frozen=True, slots=True)
class Casting:
    """How private rows vote in a run: how often, for how many texts (Q), on how many sides (near, or near and far).

    `choice_share`: part of each release's loss that counts the PLMs of rows' nearest texts.
    """

    releases: int
    votes: int = 1
    sides: int = 1
    choice_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Asks:
    """So many calls of some models together, equally shared; `shows`: how many examples their prompts hold.

    `varies`: the prompt holds one text that is to be varied.
    """

    models: tuple[str, ...]
    number: int
    shows: int = 0
    varies: bool = False


class AnyMethod(Strict):
    """What the settings of every method have in common."""

    iterations: int = Field(5, ge=1, le=100, description="Rounds (T).")
    samples: int = Field(6000, ge=1, le=10_000_000, description="Synthetic texts in all (N).")

    @property
    def casting(self) -> Casting:
        """How the private rows vote: each round for the nearest text."""
        return Casting(self.iterations)

    @property
    def releases_density(self) -> bool:
        """Whether a density of the private rows guides."""
        return False

    @property
    def tuning(self) -> Training | None:
        """The steps in which the private rows are learned; None where they vote."""
        return None

    @property
    def result_size(self) -> int:
        """How many texts the result should hold."""
        return self.samples

    @property
    def candidates(self) -> int:
        """How many texts stand for election in the first vote, all classes together."""
        return self.samples

    @property
    def starts(self) -> dict[str, int]:
        """Numbers of texts, by their field, that every model and class must have a share of."""
        return {"samples": self.samples}

    @property
    def shared_over_rounds(self) -> bool:
        """Whether the texts are written a part in each round."""
        return False


class RoundsMethod(AnyMethod):
    """What methods have in common that write a part of all texts in each round, with examples after the first."""

    @model_validator(mode="after")
    def _rounds_fit(self) -> Self:
        if self.samples < self.iterations:
            raise ValueError(f"samples ({self.samples}) must be at least iterations ({self.iterations})")
        return self

    @property
    def shared_over_rounds(self) -> bool:
        """Each round writes a T-th of all texts."""
        return True

    def asks_of(self, writers: tuple[str, ...], examples: int) -> list[Asks]:
        """The first round without examples, the others with as many of them."""
        first = self.samples // self.iterations
        return [Asks(writers, first), Asks(writers, self.samples - first, examples)]


class Method(RoundsMethod):
    """WASP's own settings (Algorithm 1)."""

    iterations: int = Field(5, ge=1, le=100, description="Rounds of writing (T). There are T - 1 releases.")
    votes: int = Field(8, ge=1, le=32, description="Nearest and furthest texts that each private row votes for (Q).")
    examples: int = Field(8, ge=2, le=64, description="Examples in a prompt (S), half of them bad.")
    contrast: bool = Field(True, description="Show bad examples beside good ones.")
    weighting: bool = Field(True, description="Let models that do well write more.")
    weights_by: Literal["linear", "softmax"] = Field(
        "linear", description="Shares by the models' weights themselves (paper), or by their softmax (its code)."
    )
    temperature: float = Field(1.0, gt=0, le=1000, description="What weights are divided by before the softmax.")
    vote_scope: Literal["all", "latest"] = Field("all", description="Vote on all texts so far, or on the latest round.")
    weights_from: Literal["votes", "counts"] = Field(
        "votes",
        exclude_if=lambda value: value == "votes",
        description="What tells the models' weights: the votes on their texts (paper), or a noisy count by itself, of "
        "the rows whose nearest text each wrote.",
    )
    counts_share: float | None = Field(
        None,
        gt=0,
        le=MOST_CHOICE_SHARE,
        exclude_if=lambda value: value is None,
        description="Part of the budget for that count; the votes have the rest. Empty: 0.15.",
    )

    guidance: Guidance = Field(
        "votes",
        exclude_if=partial(eq, "votes"),
        description="What private rows release: votes, on texts, in each round but the last (paper); votes_smoothed: "
        "the same, and neighbours tell of each text too; kernel: the noisy density of their vectors, once for all "
        "rounds; subspace: its moments along the main axes of the first round's texts; clusters: noisy counts of rows "
        "in clusters of these texts. `votes` (Q) means nothing for the last three.",
    )
    kernel: KernelName = Field(
        "cosine",
        exclude_if=partial(eq, "cosine"),
        description="What guidance: kernel compares vectors by: cosine, or gaussian (random Fourier features).",
    )
    final_set: Literal["all", "matched"] = Field(
        "all",
        exclude_if=partial(eq, "all"),
        description="What becomes the data set: all texts, or matched: those that together match the released density; "
        "student and export know no others. For guidance: kernel, subspace or clusters; costs no budget.",
    )
    keep: float | None = Field(
        None,
        gt=0,
        lt=1,
        exclude_if=lambda value: value is None,
        description="Part of all texts that final_set: matched keeps. Empty: 0.75.",
    )

    bad_per_hub: int | None = Field(
        None,
        ge=1,
        le=64,
        exclude_if=lambda value: value is None,
        description="At most so many bad examples of a class that lie close together (cosine 0.8), so that one odd "
        "corner does not lend them all. Empty: any number.",
    )
    appraise: bool = Field(
        False,
        exclude_if=partial(eq, False),
        description="Measure in each round, against test rows, how well examples and weights were chosen.",
    )

    rules = (
        rule("counts_share", {"type": "number"}, {"weights_from": {"const": "counts"}})
        | rule("kernel", {"const": "gaussian"}, {"guidance": {"const": "kernel"}})
        | rule("final_set", {"const": "matched"}, {"guidance": {"enum": list(DENSITIES)}})
        | rule("keep", {"type": "number"}, {"final_set": {"const": "matched"}})
    )

    @property
    def density(self) -> Kernel | None:
        """The feature map of the density that guides; None where rows vote."""
        if self.guidance == "votes" or self.guidance == "votes_smoothed":
            return None
        return Kernel(self.kernel if self.guidance == "kernel" else self.guidance)

    @property
    def releases_density(self) -> bool:
        """Where rows do not vote."""
        return self.density is not None

    @property
    def smooths(self) -> bool:
        """Whether neighbours tell of a text's votes too."""
        return self.guidance == "votes_smoothed"

    @property
    def kept(self) -> float:
        """Part of all texts that becomes the data set."""
        return (self.keep or KEEP) if self.final_set == "matched" else 1.0

    @property
    def result_size(self) -> int:
        """All texts, or those that a matched final set keeps."""
        return round(self.kept * self.samples)

    @property
    def casting(self) -> Casting:
        """T - 1 times for Q texts on both sides; the last round's texts are not voted on. A density: once."""
        if self.density is not None:
            return Casting(1)
        share = (self.counts_share or COUNTS_SHARE) if self.weights_from == "counts" else 0.0
        return Casting(self.iterations - 1, self.votes, 2, share)

    @model_validator(mode="after")
    def _counts_are_used(self) -> Self:
        if self.counts_share is not None and self.weights_from == "votes":
            raise ValueError("counts_share is for weights_from: counts; leave it out, or count")
        if self.weights_from == "counts" and not self.weighting:
            raise ValueError("weights_from: counts pays for weights that weighting: false does not use; write votes")
        return self

    @model_validator(mode="after")
    def _density_is_released(self) -> Self:
        if self.guidance != "kernel" and self.kernel != "cosine":
            raise ValueError(f"kernel is for guidance: kernel; guidance: {self.guidance} has no kernel to choose")
        if self.density is not None:
            if self.weights_from == "counts":
                raise ValueError("weights_from: counts is for guidance: votes; a density tells the weights by itself")
            if self.iterations < 2:
                raise ValueError(
                    f"guidance: {self.guidance} guides the rounds after the first; set iterations to 2 or more"
                )
            if self.keep is not None and self.final_set == "all":
                raise ValueError("keep is for final_set: matched; leave it out, or write matched")
            return self
        given = {"final_set": self.final_set != "all", "keep": self.keep is not None}
        named = [name for name, is_given in given.items() if is_given]
        if named:
            raise ValueError(f"{named[0]} is for guidance: kernel, which releases a density; votes release none")
        return self

    @property
    def candidates(self) -> int:
        """The texts of the first round."""
        return self.samples // self.iterations


def refuse_density(guidance: str, shared: bool, calibration: str, joined_by: str) -> None:
    """Raise ValueError where a density cannot be released, as where rows are `shared` out among parties."""
    if shared:
        raise ValueError(f"method.guidance is '{guidance}', a density of one party's rows; several parties vote")
    if calibration == "paper":
        raise ValueError("privacy.calibration is 'paper', but no paper releases this density; write tight")
    if joined_by != "mean":
        raise ValueError(
            f"privacy.joined_by: with method.guidance '{guidance}' a person adds the average of their rows; write mean"
        )
