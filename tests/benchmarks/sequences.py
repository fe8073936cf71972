"""Sequences of phrases drawn from densities, against the matrix products that every draw needs."""

import numpy as np

from tasks.keyphrases.densities import Shape, members_of
from tasks.keyphrases.sequences import SequenceChoice, draw_sequences
from tests.benchmarks.race import Line, compare

LENGTH = 10


def sequences(tiny: bool) -> list[Line]:
    """The paper's sizes: 14,000 sequences of 10 phrases, 1000 terms, d = 768, the logarithmic ensemble of D = 500."""
    classes, count, terms, dimension, frequencies = (2, 3, 30, 16, 20) if tiny else (14, 1000, 1000, 768, 500)
    rng = np.random.default_rng(0)
    shape = Shape("iterative", "logarithmic", LENGTH, frequencies)
    members = members_of(shape, rng.standard_normal((terms, dimension)), 0)
    sums = rng.standard_normal((classes, len(members) * shape.features))
    left = rng.standard_normal((classes * count, shape.features)).astype(np.float32)
    right = rng.standard_normal((shape.features, terms)).astype(np.float32)

    def floor() -> None:
        for _ in range(LENGTH):
            left @ right

    case = f"{classes * count} x {LENGTH} of {terms}, d={dimension}"
    notes = {"numpy matrix products": "the floor: no chances, no draw"}
    ours = lambda: draw_sequences(shape, members, sums, count, SequenceChoice(20, 1.0), np.random.default_rng(0))  # noqa: E731
    return compare("sequences", case, ours, {"numpy matrix products": floor}, 1 if tiny else 3, notes)
