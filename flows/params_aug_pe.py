"""Typed parameters of Aug-PE: how texts are varied, who lives on, what prompts tell; in two styles."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from flows.form import rule
from flows.params import AnyMethod, Asks, Calibration, Casting, RunConfig

NO_VOCABULARY = (
    "keywords: private_vocabulary needs words that were released from the private rows under privacy, and no flow of "
    "this version releases any; write list or none"
)


class AugPeMethod(AnyMethod):
    """Aug-PE's own settings."""

    style: Literal["original", "wasp_baseline"] = Field(
        "original",
        description="original: survivors and their variations replace the population, the last survivors are the "
        "result; wasp_baseline: as WASP's authors ran it, each round adds variations of a few winners, all are kept.",
    )
    iterations: int = Field(
        10, ge=1, le=100, description="Rounds (T): T releases (original), T - 1 releases (wasp_baseline)."
    )
    samples: int = Field(6000, ge=1, le=10_000_000, description="Synthetic texts in all (N).")
    variations: int = Field(
        3, ge=1, le=64, description="Variations of each survivor (L - 1), by the PLM that wrote it; style original."
    )
    keep_parents: bool = Field(True, description="Survivors stay beside their variations; style original.")
    variation: Literal["paraphrase", "blanks"] = Field(
        "paraphrase", description="How a text is varied: said in other words, or blanked in part and filled in."
    )
    mask: float = Field(0.5, gt=0, le=1, description="Share of a text's words that become blanks.")
    length_spread: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="Adaptive length: variations of as many words as the parent has plus Normal(0, mask x this); 0: no "
        "length is asked for. Embedded models keep the parent's when they fill blanks.",
    )
    look_ahead: int = Field(
        0, ge=0, le=64, description="Variations of each text whose mean vector is voted on; 0: its own. Style original."
    )
    look_ahead_self: bool = Field(False, description="A text's own vector counts in that mean.")
    selection: Literal["rank", "draw"] = Field(
        "rank", description="Survivors: those with most votes, or drawn with replacement, chances as the votes."
    )
    threshold: float = Field(
        0.0, ge=0, le=100, description="What is taken off every count (H), in standard deviations of the noise."
    )
    winners: int = Field(8, ge=1, le=1000, description="Texts of a class that are varied next; style wasp_baseline.")
    disclosure: Literal["label", "none"] = Field(
        "label", description="Whether prompts name the class, or only say what kind of text is wanted."
    )
    keywords: Literal["list", "none", "private_vocabulary"] = Field(
        "list",
        description="A keyword of its own in each prompt for a new text: list takes the task's attribute, else the "
        "words of the class if it is named; private_vocabulary is refused until a flow makes one.",
    )

    rules = rule("keywords", {"type": "string"}, {"keywords": {"enum": ["list", "none"]}})

    @property
    def accumulates(self) -> bool:
        """Whether all texts are kept."""
        return self.style == "wasp_baseline"

    @property
    def casting(self) -> Casting:
        """Once per round for the nearest text; where texts add up the last round's are not voted on."""
        return Casting(self.iterations - self.accumulates)

    @property
    def candidates(self) -> int:
        """The texts of the first vote."""
        return self.samples // self.iterations if self.accumulates else self.samples * (1 + self.variations)

    @property
    def shared_over_rounds(self) -> bool:
        """Where texts add up, a T-th in each round."""
        return self.accumulates

    @model_validator(mode="after")
    def _style_fits(self) -> Self:
        if self.keywords == "private_vocabulary":
            raise ValueError(NO_VOCABULARY)
        if self.accumulates and self.samples < self.iterations:
            raise ValueError(f"samples ({self.samples}) must be at least iterations ({self.iterations})")
        if self.accumulates and self.look_ahead:
            raise ValueError("look_ahead is for style original; wasp_baseline votes on the texts as they are")
        return self


class AugPeConfig(RunConfig):
    """Everything that one run of Aug-PE needs."""

    method: AugPeMethod = Field(AugPeMethod(), description="Aug-PE's own settings.")

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """The paper of Aug-PE accounts tightly; that of WASP has a formula."""
        return ("tight", "paper") if self.method.accumulates else ("tight",)

    @property
    def asks(self) -> list[Asks]:
        """New texts first, then variations, and those that look ahead."""
        method, writers = self.method, self.writers
        if method.accumulates:
            first = method.samples // method.iterations
            return [Asks(writers, first), Asks(writers, method.samples - first, varies=True)]
        population = method.samples * (1 + method.variations)
        later = population - method.samples if method.keep_parents else population
        varied = population - method.samples + later * (method.iterations - 1)
        ahead = population * method.look_ahead * method.iterations
        return [Asks(writers, method.samples), Asks(writers, varied + ahead, varies=True)]

    @model_validator(mode="after")
    def _noise_fits(self) -> Self:
        if self.privacy.calibration not in self.calibrations:
            raise ValueError(
                "privacy.calibration: the noise of the Aug-PE paper is the tight one; write tight, or set method.style "
                "to wasp_baseline for the noise of the WASP paper"
            )
        return self
