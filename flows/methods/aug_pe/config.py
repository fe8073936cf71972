"""Typed parameters of Aug-PE: how texts are varied, who lives on, what prompts tell; in two styles."""

from __future__ import annotations

import math
from functools import partial
from operator import eq, is_
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import RunConfig
from flows.config.form import rule
from flows.config.method import AnyMethod, Asks, Casting
from flows.config.privacy import Calibration, Privacy
from flows.config.vocabulary import VocabularyChoice
from tasks.accounting.keyphrase_budget import split_epsilon
from tasks.accounting.keyphrases import PartPrivacy

NO_VOCABULARY = (
    "method.keywords is private_vocabulary: its words are released from the private rows, so that a public vocabulary "
    "must be named under vocabulary"
)


class AugPePrivacy(Privacy):
    """What is promised about the private rows."""

    vocabulary_epsilon: float | None = Field(
        None,
        gt=0,
        exclude_if=partial(is_, None),
        description="Epsilon of a private vocabulary (method.keywords); the votes have the rest. Empty: the same "
        "budget for both.",
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
        "words of the class if it is named; private_vocabulary draws words that are released from the private rows "
        "first, with noise (AugPE+V~ of Nagesh et al. 2025; `vocabulary` names the public one).",
    )
    words: int = Field(
        1,
        ge=1,
        le=50,
        exclude_if=partial(eq, 1),
        description="Words of the private vocabulary in each prompt for a new text.",
    )
    terms: int = Field(
        10, ge=1, le=1000, exclude_if=partial(eq, 10), description="Most vocabulary terms of a row that count (S)."
    )
    vocabulary_terms: int = Field(
        1000, ge=2, le=100_000, exclude_if=partial(eq, 1000), description="Terms of the private vocabulary at most."
    )

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
        if self.accumulates and self.samples < self.iterations:
            raise ValueError(f"samples ({self.samples}) must be at least iterations ({self.iterations})")
        if self.accumulates and self.look_ahead:
            raise ValueError("look_ahead is for style original; wasp_baseline votes on the texts as they are")
        return self


class AugPeConfig(RunConfig):
    """Everything that one run of Aug-PE needs."""

    flow_name: ClassVar[str] = "aug_pe"

    vocabulary: VocabularyChoice | None = Field(
        None,
        exclude_if=partial(is_, None),
        description="The public vocabulary whose terms are counted; for method.keywords: private_vocabulary.",
    )
    privacy: AugPePrivacy = Field(AugPePrivacy(), description="What is promised about the private rows.")
    method: AugPeMethod = Field(AugPeMethod(), description="Aug-PE's own settings.")

    rules = RunConfig.rules | rule(
        "method",
        {"properties": {"keywords": {"const": "private_vocabulary"}}, "required": ["keywords"]},
        {"vocabulary": {"type": "object"}},
    )

    @property
    def counts_words(self) -> bool:
        """Whether a private vocabulary is released before the votes."""
        return self.method.keywords == "private_vocabulary"

    @property
    def vocabulary_privacy(self) -> PartPrivacy:
        """What the release of the vocabulary promises."""
        privacy = self.privacy
        epsilon, _ = split_epsilon(privacy.epsilon, privacy.delta, "gaussian", privacy.vocabulary_epsilon)
        adjacency = privacy.neighbours(self.private)
        return PartPrivacy("vocabulary", epsilon, privacy.delta, terms=self.method.terms, adjacency=adjacency)

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
    def _words_can_be_counted(self) -> Self:
        if not self.counts_words:
            return self
        if self.vocabulary is None:
            raise ValueError(NO_VOCABULARY)
        if self.parties is not None:
            raise ValueError(
                "method.keywords is private_vocabulary, whose words several parties do not count together; write list "
                "or none"
            )
        if math.isinf(self.privacy.epsilon) or self.privacy.protects == "person":
            raise ValueError(
                "method.keywords: private_vocabulary protects single rows at a finite epsilon; write list or none"
            )
        given = self.privacy.vocabulary_epsilon
        if given is not None and given >= self.privacy.epsilon:
            raise ValueError(f"privacy.vocabulary_epsilon ({given:g}) must be below privacy.epsilon")
        return self

    @model_validator(mode="after")
    def _noise_fits(self) -> Self:
        if self.privacy.calibration not in self.calibrations:
            raise ValueError(
                "privacy.calibration: the noise of the Aug-PE paper is the tight one; write tight, or set method.style "
                "to wasp_baseline for the noise of the WASP paper"
            )
        return self
