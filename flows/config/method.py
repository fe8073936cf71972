"""Typed parameters of the methods: shared fields, and the settings of WASP."""

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

DEFAULT_VOTES = 8
"""Default number of votes per record (Q)."""
COUNTS_SHARE = 0.15
"""Default share of a release's loss (mu squared) for counts; 10 to 20 % work well."""

KEEP = 0.75
"""Default share of all texts in a matched final set."""
Guidance = Literal["auto", "votes", "votes_smoothed", "kernel", "subspace", "clusters"]
DENSITIES = ("auto", "kernel", "subspace", "clusters")
"""Values of `guidance` that release at most one density; with others, records vote."""


@dataclass(frozen=True, slots=True)
class Casting:
    """Voting scheme of a run.

    Attributes:
        releases: number of votes (releases).
        votes: votes per record (Q).
        sides: 1 for nearest texts, 2 for nearest and furthest.
        choice_share: share of each release's loss for the counts of the PLMs of the records' nearest texts.
    """

    releases: int
    votes: int = 1
    sides: int = 1
    choice_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Asks:
    """A number of calls, divided equally among models.

    Attributes:
        shows: examples per prompt.
        shows_per_class: examples of each class per prompt, instead of `shows`.
        varies: True if the prompt contains a text to vary.
    """

    models: tuple[str, ...]
    number: int
    shows: int = 0
    varies: bool = False
    shows_per_class: int = 0


class AnyMethod(Strict):
    """Settings shared by all methods."""

    first = ("samples",)

    iterations: int = Field(5, ge=1, le=100, description="Iterations (T).")
    samples: int = Field(6000, ge=1, le=10_000_000, description="Total number of synthetic texts (N).")

    @property
    def casting(self) -> Casting:
        """Voting scheme; by default one vote per record and iteration (nearest text)."""
        return Casting(self.iterations)

    @property
    def releases_density(self) -> bool:
        """True if the method releases a density of the private data."""
        return False

    @property
    def tuning(self) -> Training | None:
        """DP-SGD training on the private data; None for methods that vote."""
        return None

    @property
    def result_size(self) -> int:
        """Number of texts in the final data set."""
        return self.samples

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


class RoundsMethod(AnyMethod):
    """Base of methods that generate a part of the texts per iteration.

    Prompts contain examples after the first iteration.
    """

    @model_validator(mode="after")
    def _rounds_fit(self) -> Self:
        if self.samples < self.iterations:
            raise ValueError(f"samples ({self.samples}) must be at least iterations ({self.iterations})")
        return self

    @property
    def shared_over_rounds(self) -> bool:
        """Each iteration generates N / T texts."""
        return True

    def asks_of(self, writers: tuple[str, ...], examples: int) -> list[Asks]:
        """Return the calls: no examples in iteration 1, then `examples` per prompt."""
        first = self.samples // self.iterations
        return [Asks(writers, first), Asks(writers, self.samples - first, examples)]


class WaspMethod(RoundsMethod):
    """Settings of WASP (Algorithm 1)."""

    iterations: int = Field(5, ge=1, le=100, description="Iterations (T). There are T - 1 releases.")
    votes: int = Field(
        DEFAULT_VOTES, ge=1, le=32, description="Votes per record (Q) for its nearest and for its furthest texts."
    )
    examples: int = Field(8, ge=2, le=64, description="Examples per prompt (S), half of them bad.")
    contrast: bool = Field(True, description="Show bad examples in addition to good ones.")
    weighting: bool = Field(True, description="Let better models generate more texts.")
    weights_by: Literal["linear", "softmax"] = Field(
        "linear", description="Texts per model: proportional to its weight (paper), or to the softmax (paper's code)."
    )
    temperature: float = Field(1.0, gt=0, le=1000, description="Divisor of the weights before the softmax.")
    least_share: float | None = Field(
        None,
        ge=0,
        le=1,
        exclude_if=lambda value: value is None,
        description="Smallest part of an equal share of the texts that each model writes. Empty: 0.05, or 0 with "
        "privacy.calibration: paper.",
    )
    vote_scope: Literal["all", "latest"] = Field(
        "all", description="Candidates of a vote: all texts so far, or those of the latest iteration."
    )
    weights_from: Literal["votes", "counts"] = Field(
        "votes",
        exclude_if=lambda value: value == "votes",
        description="Source of the model weights. votes: the votes on each model's texts (paper). counts: a separate "
        "noisy count of records by the model of their nearest text.",
    )
    counts_share: float | None = Field(
        None,
        gt=0,
        le=MOST_CHOICE_SHARE,
        exclude_if=lambda value: value is None,
        description="Share of the budget for weights_from: counts; the votes use the rest. Empty: 0.15.",
    )

    guidance: Guidance = Field(
        "auto",
        description="Release that guides generation. auto: by the declared number of rows, classes and epsilon, a "
        "density (kernel), or nothing, and the rows stay closed. votes: votes on texts in every iteration but the last "
        "(paper). votes_smoothed: votes, smoothed over neighbouring texts. kernel: one noisy density of the private "
        "vectors. subspace: moments along the main axes of the first iteration's texts. clusters: noisy counts of "
        "records in clusters of these texts. `votes` (Q) is for votes only.",
    )
    kernel: KernelName = Field(
        "cosine",
        exclude_if=partial(eq, "cosine"),
        description="Kernel of guidance: kernel; cosine, or gaussian (random Fourier features).",
    )
    final_set: Literal["all", "matched"] = Field(
        "all",
        exclude_if=partial(eq, "all"),
        description="Final data set. all: every text. matched: a subset that matches the released density; not with "
        "votes. Uses no budget.",
    )
    keep: float | None = Field(
        None,
        gt=0,
        lt=1,
        exclude_if=lambda value: value is None,
        description="Share of all texts that final_set: matched selects. Empty: 0.75.",
    )

    class_shares: bool = Field(
        False,
        exclude_if=partial(eq, False),
        description="Weigh the classes of soft labels by the released number of records of each class. Better accuracy "
        "if the shares of the records are those of later data; rare classes lose. Needs a density. Uses no budget.",
    )
    bad_per_hub: int | None = Field(
        None,
        ge=1,
        le=64,
        exclude_if=lambda value: value is None,
        description="Maximum number of bad examples of a class that are similar (cosine 0.8). Empty: no limit.",
    )
    appraise: bool = Field(
        False,
        exclude_if=partial(eq, False),
        description="Measure the quality of examples and weights against the test data in each iteration.",
    )

    rules = (
        rule("counts_share", {"type": "number"}, {"weights_from": {"const": "counts"}})
        | rule("kernel", {"const": "gaussian"}, {"guidance": {"const": "kernel"}})
        | rule("final_set", {"const": "matched"}, {"guidance": {"enum": list(DENSITIES)}})
        | rule("keep", {"type": "number"}, {"final_set": {"const": "matched"}})
    )

    @property
    def density(self) -> Kernel | None:
        """Feature map of the configured density; None if private records vote, or if `auto` decides."""
        if self.guidance == "votes" or self.guidance == "votes_smoothed" or self.guidance == "auto":
            return None
        return Kernel(self.kernel if self.guidance == "kernel" else self.guidance)

    @property
    def releases_density(self) -> bool:
        """True if `guidance` is a density, or may choose one."""
        return self.guidance in DENSITIES

    @property
    def smooths(self) -> bool:
        """True if votes are smoothed over neighbouring texts."""
        return self.guidance == "votes_smoothed"

    @property
    def kept(self) -> float:
        """Share of all texts in the final data set."""
        return (self.keep or KEEP) if self.final_set == "matched" else 1.0

    @property
    def result_size(self) -> int:
        """All texts, or the size of the matched final set."""
        return round(self.kept * self.samples)

    @property
    def casting(self) -> Casting:
        """T - 1 releases of Q votes on both sides, or a single release of a density."""
        if self.releases_density:
            return Casting(1)
        share = (self.counts_share or COUNTS_SHARE) if self.weights_from == "counts" else 0.0
        return Casting(self.iterations - 1, self.votes, 2, share)

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.counts_share is not None and self.weights_from == "votes":
            raise ValueError("counts_share needs weights_from: counts. Remove it, or write counts")
        if self.weights_from == "counts" and not self.weighting:
            raise ValueError("weights_from: counts pays for weights that weighting: false does not use. Write votes")
        return self

    @model_validator(mode="after")
    def _check_guidance(self) -> Self:
        if self.guidance != "kernel" and self.kernel != "cosine":
            raise ValueError(f"kernel needs guidance: kernel, but guidance is {self.guidance}. Remove it")
        if self.releases_density:
            if self.votes != DEFAULT_VOTES:
                raise ValueError(
                    f"votes: {self.votes} has no effect with guidance: {self.guidance}, where private records do not "
                    "vote. Set guidance: votes, or remove it"
                )
            if self.weights_from == "counts":
                raise ValueError(
                    f"weights_from: counts needs votes: with guidance {self.guidance} a density already determines the "
                    "weights. Set guidance: votes, or weights_from: votes"
                )
            if self.iterations < 2:
                raise ValueError(
                    f"guidance: {self.guidance} takes effect after the first iteration. Set iterations to 2 or more, "
                    "or guidance to votes"
                )
            if self.keep is not None and self.final_set == "all":
                raise ValueError("keep needs final_set: matched. Remove it, or write matched")
            return self
        options = {"final_set": self.final_set != "all", "keep": self.keep is not None}
        options |= {"class_shares": self.class_shares}
        used = [name for name, is_used in options.items() if is_used]
        if used:
            raise ValueError(
                f"{used[0]} needs a released density, but guidance is {self.guidance}. Write guidance: kernel"
            )
        return self

    @property
    def candidates(self) -> int:
        """Number of texts of the first iteration."""
        return self.samples // self.iterations


def refuse_density(guidance: str, shared: bool, calibration: str, joined_by: str) -> None:
    """Raise ValueError if a density cannot be released; `shared`: among parties."""
    if shared:
        raise ValueError(f"method.guidance is '{guidance}', which does not support several parties. Write votes")
    if calibration == "paper":
        raise ValueError(
            f"privacy.calibration: 'paper' is the noise of votes, but with method.guidance '{guidance}' no record "
            "votes. Set method.guidance: votes, or privacy.calibration: tight"
        )
    if joined_by != "mean":
        raise ValueError(
            f"privacy.joined_by is '{joined_by}', but method.guidance '{guidance}' averages a person's rows. Write mean"
        )
