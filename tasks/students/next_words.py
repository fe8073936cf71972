"""The measure of texts without classes: an n-gram model of them predicts each next word of real texts.

It trains in a second and has no setting to choose. Its words are those of the texts alone, unlike those of a model
that was trained before.
"""

import math
from collections import Counter
from collections.abc import Sequence

from connectors.interfaces.errors import InputError
from connectors.models.ngram.counts import ORDER, Ngrams, tokenise
from tasks.students.spec import Scores

UNKNOWN = 1e-5
"""Least probability of a word: one of 100,000 equal ones. It is fixed, because a floor that depends on the texts' own
vocabulary favours texts with fewer words.
"""


def predict_words(texts: Sequence[str], real: Sequence[str]) -> Scores:
    """Fit a model to `texts` and predict each word of `real` from the words before it; words are lower-case.

    The result has `right` and `words` (numbers), `accuracy`, `chance` (share of the most frequent word of `real`) and
    `loss` (nats per word, at most -log UNKNOWN for a word). InputError if either side has no words.
    """
    known, words = ([tokenise(text.lower()) for text in side] for side in (texts, real))
    counts = Counter(word for text in words for word in text)
    if not any(known) or not counts:
        raise InputError(
            "Next words: the texts or the test rows have no words. Use rows with words."
        )
    model = Ngrams(known)
    total = counts.total()
    places = [
        (word, text[max(end - ORDER + 1, 0) : end])
        for text in words
        for end, word in enumerate(text)
    ]
    right = sum(model.likeliest(before) == word for word, before in places)
    loss = (
        -sum(math.log(max(model.probability(word, before), UNKNOWN)) for word, before in places)
        / total
    )
    shares = {"accuracy": right / total, "chance": max(counts.values()) / total, "loss": loss}
    return {"right": right, "words": total, **shares}
