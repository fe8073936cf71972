"""Likelihood of a text under an n-gram model of other texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from connectors.models.ngram.kneser_ney import START, KneserNey
from connectors.models.ngram.tokens import tokenise

ORDER = 4


def fit_likelihood(texts: Sequence[str]) -> Callable[[str], float]:
    """Return a function for the mean log word probability under a model of `texts`.

    An unknown word counts as a tenth of a uniformly drawn word of their vocabulary.
    """
    model = KneserNey([tokenise(text.lower()) for text in texts], ORDER)
    minimum = 0.1 / len(model.vocabulary)

    def score(text: str) -> float:
        words = [START] * (ORDER - 1) + tokenise(text.lower())
        probabilities = [
            model.probability(words[end], words[end - ORDER + 1 : end]) for end in range(ORDER - 1, len(words))
        ]
        return sum(math.log(max(p, minimum)) for p in probabilities) / max(len(probabilities), 1)

    return score
