"""Configuration of DP-KPS: public vocabulary, limits per document, and sampling of phrase sequences."""

import math
from dataclasses import replace
from functools import partial
from operator import eq
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import RECORDS_ONLY, OwnRowsConfig
from flows.config.form import UNSET, Rule, Rules
from flows.config.method import PlannedCalls, Samples, SingleRound
from flows.config.models import Plm
from flows.config.privacy import Calibration, WordsPrivacy
from flows.config.rows import Rows, VocabularyChoice
from tasks.private.phrases.features import FREQUENCIES, Ensemble, SequenceChoice, Shape
from tasks.private.phrases.promise import KEYPHRASES, TERMS, PartPrivacy
from tasks.private.phrases.promise import Setting as NoiseSetting
from tasks.writing.keyphrase_prompts import SHOWN_PER_CLASS

Sampling = Literal["independent", "sharpened", "iterative"]
DRAWS: Final = {
    "independent": (0, 1.0, None),
    "sharpened": (100, 2.0, 3.0),
    "iterative": (10, 1.0, None),
}
"""Default top and sharpness of each sampling, and its block; None: as in the paper, by density."""
DEFAULT_THRESHOLD: Final = 3.0
"""Standard deviations of the noise that one term in 740 reaches without being in any record."""


class KeyphrasePrivacy(WordsPrivacy):
    """Privacy settings of DP-KPS: the guarantee for a document and the noise."""

    setting: NoiseSetting = Field(
        "gaussian",
        description="gaussian: least noise, uses delta; pure: Laplace noise, delta 0; paper: the printed scale, on "
        "sums instead of means, NO guarantee for a document, because it covers one phrase; the ledger is charged the "
        "true cost.",
    )


class DpKpsMethod(SingleRound):
    """Method settings of DP-KPS."""

    samples: Samples = 14_000
    texts: Literal["models", "phrases"] = Field(
        "models",
        description="models: language models write a text around each sequence; phrases: the sequences are the texts, "
        "without a model, and test rows are converted to phrases as well.",
    )
    vocabulary_terms: int = Field(
        1000, ge=2, le=100_000, description="Terms in the private vocabulary at most."
    )
    threshold: float | None = Field(
        None,
        ge=0,
        le=100,
        description="Minimum noisy count of a term, in standard deviations of the noise; 0: none (paper). Empty: 3, "
        "without which a good part of the terms is in no record, but the best 100 terms stay; 0 with "
        "privacy.setting: paper.",
    )
    terms: int = Field(
        TERMS,
        ge=1,
        le=1000,
        exclude_if=partial(eq, TERMS),
        description="Different terms of a record that count for the vocabulary at most (S).",
    )
    keyphrases: int = Field(
        KEYPHRASES,
        ge=1,
        le=1000,
        exclude_if=partial(eq, KEYPHRASES),
        description="Phrases of a record that count for the densities at most (M; the paper states no number).",
    )
    frequencies: int = Field(
        FREQUENCIES,
        ge=1,
        le=100_000,
        exclude_if=partial(eq, FREQUENCIES),
        description="Random Fourier frequencies of a density (D; the paper states no number).",
    )
    ensemble: Ensemble = Field(
        "logarithmic",
        exclude_if=partial(eq, "logarithmic"),
        description="Densities of iterative sampling. logarithmic: of 2, 4, 8, ... phrases (paper); linear: of every "
        "number of phrases, which divides the budget among more (appendix A.2).",
    )
    length: int = Field(10, ge=1, le=50, description="Phrases in a sequence (L).")
    sampling: Sampling = Field(
        "iterative",
        description="independent: phrases depend on the class only, drawn from all with repeats (paper); sharpened: so "
        "too, but the best phrases only, each once in a sequence (not in the paper); iterative: phrases also depend on "
        "those before, with repeats (paper, which prints no rule for a high scoring phrase: `top` is ours).",
    )
    top: int | None = Field(
        None,
        ge=0,
        description="Draw each phrase from this many best ones; 0: from all. Empty: 10 for iterative, 100 for "
        "sharpened. Not for independent.",
    )
    sharpness: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="Exponent of the estimates that gives the probabilities. Empty: 1 for iterative (paper), 2 for "
        "sharpened. Not for independent.",
    )

    rules: ClassVar[Rules] = {
        Rule("sampling", ("independent",), field, UNSET): (
            f"{field} ({{0.{field}:g}}) has no effect on independent sampling, which draws from all phrases in "
            f"proportion to their estimates. Remove {field}, or set sampling: sharpened"
        )
        for field in ("top", "sharpness")
    }

    @property
    def shape(self) -> Shape:
        """Set of densities."""
        _, _, block = DRAWS[self.sampling]
        # Sharpened sampling draws from the same densities as independent sampling.
        kind: Literal["independent", "iterative"] = "independent"
        if self.sampling == "iterative":
            kind = "iterative"
        return Shape(kind, self.length, self.frequencies, block, ensemble=self.ensemble)

    @property
    def choice(self) -> SequenceChoice:
        """Sampling rule of a phrase."""
        top, sharpness, _ = DRAWS[self.sampling]
        # 0 is a value of `top`: all phrases.
        if self.top is not None:
            top = self.top
        if self.sharpness is not None:
            sharpness = self.sharpness
        return SequenceChoice(top, sharpness, repeats=self.sampling != "sharpened")

    @property
    def sampling_text(self) -> str:
        """Describe the sampling of sequences for plans."""
        choice = self.choice
        shape = self.shape
        drawn = f"the {choice.top} best terms" if choice.top else "all terms"
        by = "in proportion to the estimates"
        if choice.sharpness != 1:
            by = f"{by} ^ {choice.sharpness:g}"
        widths = [f"{shape.block_of(phrases):.3g}" for phrases in shape.members]
        # Each width once, in their order.
        blocks = ", ".join(dict.fromkeys(widths))
        repeats = "with" if choice.repeats else "without"
        return f"{self.sampling}: {self.length} phrases from {drawn}, {by}, {repeats} repeats; kernel width u {blocks}"

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.vocabulary_terms < self.length:
            raise ValueError(
                f"vocabulary_terms ({self.vocabulary_terms}) must be at least length ({self.length}). Raise it"
            )
        return self


class DpKpsConfig(OwnRowsConfig):
    """Configuration of a DP-KPS run."""

    flow_name: ClassVar[str] = "dp_kps"
    calibrations: ClassVar[tuple[Calibration, ...]] = ("tight",)
    """`privacy.setting` selects the noise."""

    plms: list[Plm] = Field(
        [], description="Language models (K); empty if method.texts is phrases."
    )
    vocabulary: VocabularyChoice = Field(description="Public vocabulary whose terms are counted.")
    few_shot: Rows | None = Field(
        None,
        description="Example texts of every class that are sent to the models verbatim in prompts, with their phrases "
        "from the private vocabulary (paper). Use no test rows, and never private ones.",
    )
    privacy: KeyphrasePrivacy = KeyphrasePrivacy()
    method: DpKpsMethod = DpKpsMethod()

    rules: ClassVar[Rules] = (
        OwnRowsConfig.rules
        | RECORDS_ONLY
        | {
            Rule(
                "method.texts", ("models",), "plms", {"minItems": 1}
            ): "plms: empty. Add at least one language model",
            Rule(
                "method.texts", ("phrases",), "plms", ([],)
            ): "plms: not used if method.texts is phrases. Remove plms",
        }
    )

    @property
    def few_shot_rows(self) -> Rows | None:
        """Rows of the examples in prompts, if configured."""
        return self.few_shot

    @property
    def planned_calls(self) -> list[PlannedCalls]:
        """Planned calls: one per sequence."""
        if self.method.texts == "phrases":
            return []
        shows = SHOWN_PER_CLASS if self.few_shot else 0
        return [PlannedCalls(self.writers, self.method.samples, examples_per_class=shows)]

    @property
    def threshold(self) -> float:
        """Minimum noisy count of a term in standard deviations of the noise."""
        if self.method.threshold is not None:
            return self.method.threshold
        return 0.0 if self.privacy.setting == "paper" else DEFAULT_THRESHOLD

    @property
    def shape(self) -> Shape:
        """Set of densities, with the features of the privacy setting."""
        return replace(self.method.shape, paired=self.privacy.setting != "paper")

    def part(self, part: Literal["vocabulary", "density"], epsilon: float) -> PartPrivacy:
        """Return the privacy parameters of one part."""
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
    def _is_feasible(self) -> Self:
        if math.isinf(self.privacy.epsilon):
            raise ValueError("privacy.epsilon is inf, but DP-KPS needs noise. Set a number")
        return self
