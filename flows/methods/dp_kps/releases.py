"""What DP-KPS adds to the preparation of a run: its noise, its vocabulary, texts that are shown in prompts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from flows.config.base import AnyConfig
from flows.config.rows import Rows
from flows.config.vocabulary import terms_ref, vocabulary_of
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.dp_kps.config import DpKpsConfig
from tasks.accounting.keyphrase_budget import (
    SETTING_TEXTS,
    KeyphrasesNoise,
    WordsNoise,
    calibrate_keyphrases,
    calibrate_words,
    split_epsilon,
)
from tasks.accounting.no_noise import finite
from tasks.steps.keyphrases import VocabularySpec, public_vocabulary
from tasks.text.keyphrase_prompts import Seeding

if TYPE_CHECKING:
    from collections.abc import Callable

    from flows.engine.run import Run
    from flows.engine.tools import RunTools
    from tasks.accounting.keyphrases import KeyphraseNoise
    from tasks.accounting.sensitivity import VotePrivacy
    from tasks.accounting.votes import Noise
    from tasks.text.prompts import TaskCard


LOOKED_AT = 20
"""Sequences of random terms for each class of a preview."""


def keyphrases_noise(config: DpKpsConfig) -> KeyphrasesNoise:
    """Return the noise of both releases together."""
    privacy = config.privacy
    first, second = split_epsilon(privacy.epsilon, privacy.delta, privacy.setting, privacy.vocabulary_epsilon)
    return calibrate_keyphrases(
        config.part("vocabulary", first), config.part("density", second), privacy.epsilon, privacy.delta
    )


def words_noise(config: AugPeConfig, votes: VotePrivacy) -> WordsNoise:
    """Return the noise of a private vocabulary and of the votes after it; `votes` with the epsilon of the whole run."""
    privacy = config.privacy
    _, rest = split_epsilon(privacy.epsilon, privacy.delta, "gaussian", privacy.vocabulary_epsilon)
    return calibrate_words(config.vocabulary_privacy, replace(votes, epsilon=rest), privacy.epsilon)


def vocabulary_spec(run: Run, noise: KeyphraseNoise, kept: int, threshold: float) -> VocabularySpec:
    """Describe the release of a run's vocabulary; ConfigError for a run without one."""
    choice, name = vocabulary_of(run.config), run.tools.called
    if choice is None:
        raise ConfigError("This run names no public vocabulary.")
    return VocabularySpec(
        dataset=name.dataset,
        fingerprint=name.fingerprint,
        noise=noise,
        where=terms_ref(choice, run.config.data_root),
        kept=kept,
        threshold=threshold,
        respend=run.config.privacy.respends,
    )


def few_shot_of(config: AnyConfig) -> Rows | None:
    """Return the texts that are shown in prompts, where a configuration names some."""
    return config.few_shot if isinstance(config, DpKpsConfig) else None


def check_keyphrases(config: AnyConfig, card: TaskCard) -> None:
    """Refuse densities that no row of the budget book holds; ConfigError."""
    if isinstance(config, DpKpsConfig):
        config.check_sizes(len(card.labels))


def any_phrases(tools: RunTools, card: TaskCard) -> Seeding | None:
    """Return random terms of the public vocabulary to look at prompts with: no row is opened for a preview."""
    config = tools.config
    if not isinstance(config, DpKpsConfig):
        return None
    terms = public_vocabulary(tools, terms_ref(config.vocabulary, config.data_root)).terms
    draw = random.Random(config.execution.seed)
    length = min(config.method.length, len(terms))
    drawn = {label: tuple(tuple(draw.sample(terms, length)) for _ in range(LOOKED_AT)) for label in card.label_names}
    return Seeding(drawn, disclose=config.method.disclosure == "label")


def terms_content(tools: RunTools) -> list[str]:
    """Return what names the public vocabulary of a run and its vectors; nothing for a run without one.

    Raises InputError for a vocabulary that cannot be used, ConfigError for one that is too small.
    """
    choice = vocabulary_of(tools.config)
    if choice is None:
        return []
    found = public_vocabulary(tools, terms_ref(choice, tools.config.data_root))
    needed = tools.config.method.length if isinstance(tools.config, DpKpsConfig) else 1
    if len(found.terms) < needed:
        raise ConfigError(
            f"vocabulary: {choice.path} has {len(found.terms)} terms that count, a sequence holds {needed} different "
            "ones; name a larger vocabulary, skip fewer terms, or lower method.length"
        )
    return [found.content, tools.term_embedder.identity]


def warnings_of_keyphrases(noise: Noise) -> list[str]:
    """Return what the user should know about the noise."""
    if not isinstance(noise, KeyphrasesNoise) or noise.calibration != "paper":
        return []
    return [
        "privacy.setting is paper: its noise was made for one phrase, a document adds up to "
        f"{noise.parts[1].privacy.keyphrases}, so the stated epsilon {noise.epsilon_stated:g} is NO guarantee for a "
        f"document; accounted is {noise.epsilon_exact:.4g}"
    ]


def keyphrase_plan(noise: Noise) -> dict[str, Any] | None:
    """Return the two releases of a plan; None where there are none."""
    if not isinstance(noise, KeyphrasesNoise):
        return None
    return {
        "setting": noise.calibration,
        "in_words": SETTING_TEXTS[noise.calibration],
        "parts": [
            {
                "part": part.privacy.part,
                "epsilon_stated": part.epsilon_stated,
                "epsilon_exact": finite(part.epsilon_exact),
                "noise": "Gaussian" if part.gaussian else "Laplace",
                "scale": part.scale,
                "sensitivity": part.sensitivity,
                "terms": part.privacy.terms,
                "keyphrases": part.privacy.keyphrases,
                "frequencies": part.privacy.frequencies,
                "members": part.privacy.members,
            }
            for part in noise.parts
        ],
    }


def words_plan(noise: Noise) -> dict[str, Any] | None:
    """Return the private vocabulary that comes before votes; None where there is none."""
    if not isinstance(noise, WordsNoise) or noise.vocabulary is None:
        return None
    part = noise.vocabulary
    return {"terms": part.privacy.terms, "scale": part.scale, "epsilon_exact": part.epsilon_exact}


def words_lines(value: dict[str, Any] | None) -> list[str]:
    """Return what that vocabulary costs, in a line."""
    if value is None:
        return []
    return [
        f"vocabulary    one release before the votes: in how many rows each public term stands (first {value['terms']} "
        f"of each), sigma {value['scale']:.4f}, epsilon {value['epsilon_exact']:.4f}"
    ]


def keyphrase_lines(value: dict[str, Any], epsilon: Callable[[float | None], str]) -> list[str]:
    """Return what the two releases of a plan cost, line by line; `epsilon` words one."""
    vocabulary, density = value["keyphrases"]["parts"]
    return [
        f"releases      2: in how many documents each public term stands (first {vocabulary['terms']} of each), and "
        f"{density['members']} densities per class of the first {density['keyphrases']} phrases of each",
        "protects      one document: one row with its label",
        *(
            f"noise         {part['part']}: {part['noise']}, scale {part['scale']:.4f} at sensitivity "
            f"{part['sensitivity']:.4f}, epsilon stated {part['epsilon_stated']:.4f}, exact "
            f"{epsilon(part['epsilon_exact'])}"
            for part in (vocabulary, density)
        ),
        f"setting       {value['keyphrases']['setting']}: {value['keyphrases']['in_words']}",
        f"epsilon       stated {epsilon(value['epsilon_stated'])}, exact {epsilon(value['epsilon_exact'])}, "
        f"delta {value['delta']:g}, {value['adjacency']}",
    ]
