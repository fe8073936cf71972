"""How likely a text is to an n-gram model of some other texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from connectors.models.ngram.kneser_ney import START, KneserNey
from connectors.models.ngram.tokens import tokenise

ORDER = 4


def fit_likelihood(texts: Sequence[str]) -> Callable[[str], float]:
    """Return a function that gives the mean logarithm of a text's word probabilities under a model of `texts`.

    A word that stands in none of them counts a tenth of a word drawn blindly from their vocabulary.
    """
    model = KneserNey([tokenise(text.lower()) for text in texts], ORDER)
    least = 0.1 / len(model.vocabulary)

    def score(text: str) -> float:
        words = [START] * (ORDER - 1) + tokenise(text.lower())
        found = [
            model.probability(words[place], words[place - ORDER + 1 : place]) for place in range(ORDER - 1, len(words))
        ]
        return sum(math.log(max(one, least)) for one in found) / max(len(found), 1)

    return score
