"""The rows on which a discriminator is tested: test rows, and generated texts that took no part in its training.

Song et al. 2024 measure on "our constructed test set" (Figures 3 and 4) without its size; here both halves are equal.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.metrics.discriminator import LEAST_HELD_OUT
from tasks.metrics.usefulness import Accuracy
from tasks.private.releases.teachers import PublicTexts
from tasks.steps.texts import read_samples, read_vectors, reference_rows
from tasks.text.prompts import seed_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.core.refs import Reference, Written
    from tasks.core.tools import Tools


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The first half of `texts` are test rows, the second half generated texts."""

    texts: PublicTexts

    @property
    def is_private(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The right answers: True for test rows."""
        return np.arange(len(self.texts.texts)) < len(self.texts.texts) // 2

    def correct(self, answers: np.ndarray[Any, Any]) -> Accuracy:
        """Return the accuracy of answers, True for private."""
        return Accuracy(int((answers == self.is_private).sum()), len(answers))


def held_out(
    tools: Tools, written: Sequence[Written], used: Set[int], test: Reference, seed: int, by_vectors: bool
) -> HeldOut | None:
    """Return as many test rows as generated texts without those of `used`; None if there are too few of either.

    `used`: indices of the texts, by sample id, that are queries or in a training set. The seed draws rows and texts.
    """
    samples = read_samples(tools, written)
    left = np.setdiff1d(np.arange(len(samples)), sorted(used))
    frame, real = reference_rows(tools, test)
    count = min(len(left), len(frame))
    if count < LEAST_HELD_OUT:
        return None
    random = np.random.default_rng(seed_of("held out", seed))
    rows, texts = (np.sort(random.permutation(part)[:count]) for part in (np.arange(len(frame)), left))
    both = [*frame["text"].to_numpy()[rows].tolist(), *samples["text"].to_numpy()[texts].tolist()]
    vectors = np.concatenate([np.asarray(real)[rows], read_vectors(tools, written)[texts]]) if by_vectors else None
    return HeldOut(PublicTexts(both, vectors))
