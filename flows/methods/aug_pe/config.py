"""Configuration of Aug-PE: variations, survivors and prompts, in two styles."""

import math
from functools import partial
from operator import is_
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import RunConfig
from flows.config.form import SET, UNSET, Rule, Rules
from flows.config.method import AnyMethod, PlannedCalls, VotingScheme
from flows.config.privacy import Calibration, WordsPrivacy
from flows.config.rows import VocabularyChoice


class AugPeMethod(AnyMethod):
    """Method settings of Aug-PE."""

    style: Literal["original", "wasp_baseline"] = Field(
        "original",
        description="original: survivors and their variations replace the population, the last survivors are the "
        "result; wasp_baseline: each iteration adds variations of a few winners (baseline of the WASP paper).",
    )
    iterations: int = Field(
        10,
        ge=1,
        le=100,
        description="Iterations (T): T releases (original), T - 1 releases (wasp_baseline).",
    )
    variations: int = Field(
        3,
        ge=1,
        le=64,
        description="Variations of each survivor (L - 1) by the PLM that wrote it; for style original.",
    )
    variation: Literal["paraphrase", "blanks"] = Field(
        "paraphrase",
        description="Variation of a text: paraphrase it, or blank and fill a part of it.",
    )
    mask: float = Field(0.5, gt=0, le=1, description="Share of a text's words that become blanks.")
    disclosure: Literal["label", "none"] = Field(
        "label", description="Prompts name the class (label), or only the kind of text (none)."
    )
    keywords: Literal["list", "none", "private_vocabulary"] = Field(
        "list",
        description="Different keyword in each prompt for a new text. list: from the task's attribute, else from the "
        "keywords of the class if prompts name it; private_vocabulary: from a noisy private vocabulary that is "
        "released first (AugPE+V~ of Nagesh et al. 2025; `vocabulary` is the public one).",
    )

    @property
    def accumulates(self) -> bool:
        """True if all texts remain in the data set."""
        return self.style == "wasp_baseline"

    @property
    def voting(self) -> VotingScheme:
        """One vote per iteration for the nearest text; wasp_baseline has no vote in the last one."""
        return VotingScheme(self.iterations - self.accumulates)

    @property
    def candidates(self) -> int:
        """Number of texts in the first vote."""
        if self.accumulates:
            return self.samples // self.iterations
        # The population: survivors and their variations.
        return self.samples * (1 + self.variations)

    @property
    def shared_over_rounds(self) -> bool:
        """True if each iteration writes 1/T of all texts."""
        return self.accumulates


class AugPeConfig(RunConfig):
    """Configuration of an Aug-PE run."""

    flow_name: ClassVar[str] = "aug_pe"

    vocabulary: VocabularyChoice | None = Field(
        None,
        exclude_if=partial(is_, None),
        description="Public vocabulary whose terms are counted; for method.keywords: private_vocabulary.",
    )
    privacy: WordsPrivacy = WordsPrivacy()
    method: AugPeMethod = AugPeMethod()

    rules: ClassVar[Rules] = RunConfig.rules | {
        Rule("method.keywords", ("private_vocabulary",), "vocabulary", SET): (
            "method.keywords: private_vocabulary needs a public vocabulary whose terms are counted in the private "
            "rows. Set vocabulary"
        ),
        Rule("method.keywords", ("private_vocabulary",), "parties", UNSET): (
            "method.keywords: private_vocabulary does not support several parties. Set list or none"
        ),
        Rule("method.keywords", ("list", "none"), "privacy.vocabulary_epsilon", UNSET): (
            "privacy.vocabulary_epsilon is set, but this run releases no vocabulary. Remove it"
        ),
        Rule("method.style", ("original",), "privacy.calibration", ("tight",)): (
            "privacy.calibration: style original supports tight only, as in the Aug-PE paper. Set tight, or set "
            "method.style to wasp_baseline for the noise of the WASP paper"
        ),
    }

    @property
    def counts_words(self) -> bool:
        """True if a private vocabulary is released before the votes."""
        return self.method.keywords == "private_vocabulary"

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Possible values of `privacy.calibration`; only the WASP paper has a formula of its own."""
        if self.method.accumulates:
            return ("tight", "paper")
        return ("tight",)

    @property
    def planned_calls(self) -> list[PlannedCalls]:
        """Planned calls: new texts first, then variations."""
        method = self.method
        writers = self.writers
        if method.accumulates:
            first = method.samples // method.iterations
            return [
                PlannedCalls(writers, first),
                PlannedCalls(writers, method.samples - first, is_variation=True),
            ]
        varied = method.samples * method.variations * method.iterations
        return [
            PlannedCalls(writers, method.samples),
            PlannedCalls(writers, varied, is_variation=True),
        ]

    @model_validator(mode="after")
    def _words_can_be_counted(self) -> Self:
        # The sensitivity of term counts is that of one record.
        has_promise = math.isfinite(self.privacy.epsilon) and self.privacy.protects == "record"
        if self.counts_words and not has_promise:
            raise ValueError(
                "method.keywords: private_vocabulary needs protects: record and a finite epsilon. Set list or none"
            )
        return self
