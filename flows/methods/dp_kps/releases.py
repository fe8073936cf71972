"""The releases of DP-KPS: a vocabulary and densities of the records' phrases (Nagesh et al. 2025)."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, cast

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import MAX_BYTES
from flows.config.paths import terms_ref
from flows.config.task_files import load_task
from flows.methods.vocabulary import vocabulary_content
from tasks.accounting.guarantee import Guarantee
from tasks.accounting.integer_noise import calibrate_sums
from tasks.accounting.promise import Promise
from tasks.private.phrases.promise import split_epsilon
from tasks.private.phrases.release import PhrasesRelease, VocabularyRelease
from tasks.private.phrases.step import public_vocabulary
from tasks.private.release import Release
from tasks.writing.keyphrase_prompts import SHOWN_PER_CLASS, Seeding

if TYPE_CHECKING:
    from flows.engine.tools import RunTools
    from flows.methods.dp_kps.config import DpKpsConfig
    from tasks.writing.prompts import TaskCard

PREVIEWED = 20
"""Number of random sequences for each class of a preview."""


def keyphrase_releases(config: DpKpsConfig) -> Guarantee[Release]:
    """Return the guarantee of a DP-KPS run; ConfigError if they are too large for the ledger."""
    check_sizes(config, load_task(config.task))
    privacy = config.privacy
    first, second = split_epsilon(
        privacy.epsilon, privacy.delta, privacy.setting, privacy.vocabulary_epsilon
    )
    vocabulary = calibrate_sums(config.part("vocabulary", first))
    density = calibrate_sums(config.part("density", second))
    promise = Promise(privacy.epsilon, privacy.delta, adjacency=density.privacy.adjacency)
    phrases = PhrasesRelease(density, config.method.sampling_text)
    return Guarantee(promise, (VocabularyRelease(vocabulary), phrases))


def check_sizes(config: DpKpsConfig, card: TaskCard) -> None:
    """Raise ConfigError if the densities are too large for a row of the ledger."""
    classes = len(card.labels)
    shape = config.method.shape
    # One release is one row of the ledger, with 8 bytes a number.
    size = 8 * classes * shape.features * len(shape.members)
    if size > MAX_BYTES:
        raise ConfigError(
            f"method.length: the densities of {classes} classes take {size / 1e6:.1f} MB in the ledger, "
            f"at most {MAX_BYTES / 1e6:g} are allowed. Lower method.length or method.frequencies, or join classes"
        )


def vocabulary_contents(tools: RunTools) -> list[str]:
    """Return digests of the public vocabulary and its embedder; ConfigError for unusable terms or examples."""
    config = cast("DpKpsConfig", tools.config)
    _check_examples(tools, config)
    return vocabulary_content(tools, config.method.length)


def _check_examples(tools: RunTools, config: DpKpsConfig) -> None:
    """Raise ConfigError for a class with too few examples, and for an example that is a test row (B.2.5)."""
    if config.few_shot is None:
        return
    examples = tools.read_rows(tools.rows_ref(config.few_shot))
    if config.test is not None:
        tested = set(tools.read_rows(tools.rows_ref(config.test))["text"])
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
    config = cast("DpKpsConfig", tools.config)
    terms = public_vocabulary(tools, terms_ref(config.vocabulary, config.data_root)).terms
    draw = random.Random(config.execution.seed)
    length = min(config.method.length, len(terms))
    phrases = {
        label: tuple(tuple(draw.sample(terms, length)) for _ in range(PREVIEWED))
        for label in card.label_names
    }
    return Seeding(phrases)
