"""The releases of DP-KPS: a vocabulary and densities of the records' phrases (Nagesh et al. 2025)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from connectors.interfaces.errors import ConfigError
from flows.config.paths import rows_ref
from flows.config.task_files import load_task
from flows.config.vocabulary import terms_ref
from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan, Releases
from flows.engine.text import epsilon
from flows.releases.budget import share_budget
from flows.releases.sums import noise_values, sum_audits
from flows.releases.vocabulary import vocabulary_content
from tasks.accounting.keyphrases import (
    PartPrivacy,
    calibrate_keyphrases,
    split_epsilon,
)
from tasks.accounting.no_noise import finite
from tasks.accounting.sums import SumNoise
from tasks.steps.keyphrases import public_vocabulary
from tasks.text.keyphrase_prompts import SHOWN_PER_CLASS, Seeding

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.engine.tools import RunTools
    from flows.methods.dp_kps.config import DpKpsConfig
    from tasks.accounting.votes import Noise
    from tasks.text.prompts import TaskCard

PREVIEWED = 20
"""Number of random sequences for each class of a preview."""

SETTING_TEXTS = {
    "gaussian": "integer Gaussian noise on averages of each document",
    "pure": "integer Laplace noise on averages of each document, delta 0",
    "paper": "the scale of the paper as printed, on sums instead of means, made for one phrase: NO guarantee of its "
    "epsilon for a document; the cost of a document is accounted",
}
"""The noise of each setting, for plans and reports."""


@dataclass(frozen=True, slots=True)
class KeyphrasesRelease(Release):
    """The noisy vocabulary and the noisy densities of a run."""

    noise: Noise
    sequences: str
    name: ClassVar[str] = "keyphrases"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charges of the vocabulary and of the densities."""
        return tuple(part.charge for part in self.noise.sums)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return both releases and their noise."""
        vocabulary, density = self.noise.sums
        setting = self.noise.calibration
        values = {
            "setting": setting,
            "in_words": SETTING_TEXTS[setting],
            "parts": [_part_values(part) for part in self.noise.sums],
            "sequences": self.sequences,
        }
        return ReleasePlan(
            {"keyphrases": values},
            (
                f"releases      2: the number of documents with each public term (first {vocabulary.privacy.terms} of "
                f"each), and {density.privacy.members} densities per class of the first {density.privacy.keyphrases} "
                "phrases of each",
                *(_noise_line(part) for part in self.noise.sums),
                f"setting       {setting}: {SETTING_TEXTS[setting]}",
                f"sequences     {self.sequences}",
            ),
        )

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Warn about noise that gives no guarantee for a document."""
        noise = self.noise
        if noise.calibration != "paper":
            return []
        return [
            "privacy.setting is paper: its noise covers one phrase, but a document adds up to "
            f"{noise.sums[1].privacy.keyphrases}, so the stated epsilon {noise.epsilon_stated:g} is NO guarantee for "
            f"a document; the ledger is charged {noise.epsilon_exact:.4g}"
        ]

    def outcome(self) -> ReleaseOutcome:
        """Return both releases as a sentence."""
        vocabulary, density = self.noise.sums
        return ReleaseOutcome(
            kind="keyphrases",
            text=f"how many documents contain each public term (first {vocabulary.privacy.terms} of each; epsilon "
            f"{vocabulary.epsilon_exact:.4g}), and densities of the first {density.privacy.keyphrases} phrases of each "
            f"by {density.privacy.frequencies} frequencies and {density.privacy.members} member(s) (epsilon "
            f"{density.epsilon_exact:.4g}); {SETTING_TEXTS[self.noise.calibration]}",
            affected="the noisy counts and sums: phrases, prompts, synthetic texts, student",
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audits of both releases."""
        return tuple(case for part in self.noise.sums for case in sum_audits(part))


def keyphrase_releases(config: DpKpsConfig) -> Releases:
    """Return the releases of a DP-KPS run."""

    def wrap(noise: Noise) -> tuple[Release, ...]:
        return (KeyphrasesRelease(noise, config.method.sampling_text),)

    return share_budget(config, _noise, wrap)


def _noise(config: DpKpsConfig) -> Noise:
    privacy = config.privacy
    first, second = split_epsilon(privacy.epsilon, privacy.delta, privacy.setting, privacy.vocabulary_epsilon)
    return calibrate_keyphrases(
        config.part("vocabulary", first), config.part("density", second), privacy.epsilon, privacy.delta
    )


def _part_values(part: SumNoise[PartPrivacy]) -> dict[str, Any]:
    return noise_values(part) | {size: getattr(part.privacy, size) for size in part.privacy.sizes}


def _noise_line(part: SumNoise[PartPrivacy]) -> str:
    kind = part.kind.capitalize()
    return (
        f"noise         {part.privacy.part}: {kind}, scale {part.scale:.4f} at sensitivity {part.sensitivity:.4f}, "
        f"epsilon stated {part.epsilon_stated:.4f}, exact {epsilon(finite(part.epsilon_exact))}"
    )


def check_sizes(config: DpKpsConfig, card: TaskCard) -> None:
    """Raise ConfigError if the densities are too large for a row of the ledger."""
    config.check_sizes(len(card.labels))


def vocabulary_contents(tools: RunTools) -> list[str]:
    """Return digests of the public vocabulary and its embedder; ConfigError for unusable terms or examples."""
    config: Any = tools.config
    _check_examples(tools, config)
    return vocabulary_content(tools, config.method.length)


def _check_examples(tools: RunTools, config: DpKpsConfig) -> None:
    """Raise ConfigError for a class with too few examples, and for an example that is a test row (B.2.5)."""
    if config.few_shot is None:
        return
    examples = tools.read_rows(rows_ref(config.few_shot, config.data_root))
    if config.test is not None:
        tested = set(tools.read_rows(rows_ref(config.test, config.data_root))["text"])
        shared = examples.loc[examples["text"].isin(tested), "row"].tolist()
        if shared:
            raise ConfigError(
                f"few_shot: {len(shared)} examples are test rows too, the first is row {shared[0]}; the student would "
                "be tested on what prompts have shown. Remove them from one of both"
            )
    counts = Counter(examples["label"].tolist())
    for label in load_task(config.task).label_names:
        if counts[label] < SHOWN_PER_CLASS:
            raise ConfigError(
                f"few_shot: class '{label}' has {counts[label]} examples, but each prompt shows {SHOWN_PER_CLASS} of "
                "every class. Add examples"
            )


def random_phrases(tools: RunTools, card: TaskCard) -> Seeding:
    """Return random terms of the public vocabulary for the prompts of a preview; uses no private data."""
    config: Any = tools.config
    terms = public_vocabulary(tools, terms_ref(config.vocabulary, config.data_root)).terms
    draw = random.Random(config.execution.seed)
    length = min(config.method.length, len(terms))
    phrases = {label: tuple(tuple(draw.sample(terms, length)) for _ in range(PREVIEWED)) for label in card.label_names}
    return Seeding(phrases)
