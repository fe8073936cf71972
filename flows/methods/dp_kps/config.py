"""Typed parameters of DP-KPS: the public vocabulary, what a document may add, how sequences of phrases are drawn."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from connectors.interfaces.ledger import MOST_BYTES
from flows.config.base import OwnRowsConfig
from flows.config.form import rule
from flows.config.method import AnyMethod, Asks, Casting
from flows.config.models import Plm
from flows.config.privacy import Calibration, Privacy
from flows.config.rows import Rows
from flows.config.vocabulary import VocabularyChoice
from tasks.accounting.keyphrases import PartPrivacy
from tasks.accounting.keyphrases import Setting as NoiseSetting
from tasks.keyphrases.densities import Ensemble, Sampling, Shape


class KeyphrasePrivacy(Privacy):
    """What is promised about a document, and by which noise."""

    setting: NoiseSetting = Field(
        "gaussian",
        description="gaussian: least noise, delta; pure: Laplace noise, delta 0; paper: as printed, NO guarantee of "
        "epsilon for a document, because the noise was made for one phrase: what it costs is accounted.",
    )
    vocabulary_epsilon: float | None = Field(
        None, gt=0, description="Epsilon of the vocabulary; the density has the rest. Empty: the same budget for both."
    )
    protects: Literal["record"] = Field("record", description="One document: one row with its label.")
    calibration: Literal["tight"] = Field("tight", description="setting says which noise is drawn.")


class DpKpsMethod(AnyMethod):
    """The settings of DP-KPS."""

    iterations: Literal[1] = Field(1, description="Two releases, then texts; nothing is repeated.")
    samples: int = Field(14_000, ge=1, le=10_000_000, description="Synthetic texts in all, one prompt each (N).")
    texts: Literal["models", "phrases"] = Field(
        "models",
        description="models: language models write a text around each sequence; phrases: the sequences are the texts, "
        "no model is asked, and test rows are turned into phrases too.",
    )
    terms: int = Field(10, ge=1, le=1000, description="Most vocabulary terms of a document that count (S).")
    vocabulary_terms: int = Field(1000, ge=2, le=100_000, description="Terms of the private vocabulary at most.")
    threshold: float = Field(
        0.0, ge=0, le=100, description="Least noisy count of such a term, in standard deviations of the noise; 0: none."
    )
    keyphrases: int = Field(10, ge=1, le=1000, description="Most phrases of a document in the density (M).")
    length: int = Field(10, ge=1, le=50, description="Phrases of a sequence (L).")
    sampling: Sampling = Field(
        "iterative", description="independent: phrases of a class one by one; iterative: each by those before it."
    )
    ensemble: Ensemble = Field(
        "logarithmic", description="Densities of sampling iterative: linear, L of them; logarithmic, about log2 L."
    )
    frequencies: int = Field(500, ge=1, le=20_000, description="Random Fourier frequencies of a density (D).")
    block: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="Squared length of a phrase's vector in the kernel exp(-|x - y|^2); larger tells phrases better "
        "apart. Empty: 2 / length.",
    )
    top: int = Field(10, ge=0, description="A phrase is drawn among so many best ones; 0: among all.")
    sharpness: float = Field(1.0, gt=0, le=1000, description="Chances are the estimates to this power.")
    examples: int = Field(6, ge=1, le=64, description="Examples in a prompt, where `few_shot` names some.")
    disclosure: Literal["label", "none"] = Field("none", description="Whether prompts name the class.")

    @property
    def casting(self) -> Casting:
        """Private rows do not vote."""
        return Casting(0)

    @property
    def shape(self) -> Shape:
        """Which densities there are."""
        return Shape(
            self.sampling, self.ensemble, self.length, self.frequencies, self.block or 2 / self.length, paired=True
        )

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.vocabulary_terms < self.length:
            raise ValueError(
                f"vocabulary_terms ({self.vocabulary_terms}) must be at least length ({self.length}): a sequence "
                "repeats no phrase"
            )
        return self


class DpKpsConfig(OwnRowsConfig):
    """Everything that one run of DP-KPS needs."""

    flow_name: ClassVar[str] = "dp_kps"

    plms: list[Plm] = Field([], description="The language models (K of them); none where method.texts is phrases.")
    vocabulary: VocabularyChoice = Field(description="The public vocabulary whose terms are counted.")
    few_shot: Rows | None = Field(
        None,
        description="Texts that are shown in prompts as examples. They leave as they are: give texts that may, never "
        "private rows.",
    )
    privacy: KeyphrasePrivacy = Field(KeyphrasePrivacy(), description="What is promised about the private rows.")
    method: DpKpsMethod = Field(DpKpsMethod(), description="The settings of DP-KPS.")

    rules = OwnRowsConfig.rules | rule(
        "method",
        {"properties": {"texts": {"enum": ["models"]}}, "required": ["texts"]},
        {"plms": {"minItems": 1}},
    )

    @property
    def adds_epsilons(self) -> bool:
        """Pure epsilons are added; Gaussian ones compose."""
        return self.privacy.setting != "gaussian"

    @property
    def few_shot_rows(self) -> Rows | None:
        """The rows that prompts show, where some were given away."""
        return self.few_shot

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """privacy.setting says which noise is drawn."""
        return ("tight",)

    @property
    def asks(self) -> list[Asks]:
        """A text for each sequence."""
        if self.method.texts == "phrases":
            return []
        return [Asks(self.writers, self.method.samples, self.method.examples if self.few_shot else 0)]

    @property
    def shape(self) -> Shape:
        """Which densities there are, with the features of the setting."""
        from dataclasses import replace

        return replace(self.method.shape, paired=self.privacy.setting != "paper")

    def part(self, part: Literal["vocabulary", "density"], epsilon: float) -> PartPrivacy:
        """Return what one part promises."""
        method = self.method
        return PartPrivacy(
            part=part,
            epsilon=epsilon,
            delta=self.privacy.delta,
            setting=self.privacy.setting,
            terms=method.terms,
            keyphrases=method.keyphrases,
            frequencies=method.frequencies,
            members=len(method.shape.members),
            adjacency=self.privacy.neighbours(self.private),
        )

    @model_validator(mode="after")
    def _can_be_carried_out(self) -> Self:
        if math.isinf(self.privacy.epsilon):
            raise ValueError("privacy.epsilon is inf: DP-KPS without noise is not offered; write a number")
        given = self.privacy.vocabulary_epsilon
        if given is not None and given >= self.privacy.epsilon:
            raise ValueError(f"privacy.vocabulary_epsilon ({given:g}) must be below privacy.epsilon")
        if (self.method.texts == "models") != bool(self.plms):
            raise ValueError(
                "plms: name at least one language model"
                if not self.plms
                else "plms: no model is asked where method.texts is phrases; leave them out"
            )
        return self

    def check_sizes(self, classes: int) -> None:
        """Refuse densities that do not fit into a row of the budget book; ConfigError."""
        from connectors.interfaces.errors import ConfigError

        wanted = 8 * classes * self.method.shape.features * len(self.method.shape.members)
        if wanted > MOST_BYTES:
            raise ConfigError(
                f"method.frequencies: the densities of {classes} classes take {wanted / 1e6:.1f} MB in the budget "
                f"book, at most {MOST_BYTES / 1e6:g} are kept; lower method.frequencies, or take ensemble logarithmic"
            )
