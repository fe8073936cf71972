"""Split rows among parties for experiments, by a Dirichlet draw per class.

Yurochkin et al. 2019, section 4, and Hsu et al. 2019 (here per class, as in the WASP paper with alpha 1). A smaller
alpha makes the classes of the parties more different.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Partition:
    """Parameters: number of parties, Dirichlet alpha, seed; and those of every party's file.

    `epsilon`: cap. `embedder`: CONNECTOR:MODEL. `colluding`: colluding parties that every run must tolerate.
    """

    parties: int
    alpha: float = 1.0
    seed: int = 0
    epsilon: float = 4.0
    embedder: str = "sentence_transformers:embedded"
    colluding: int = 1


def row_order(number: int, seed: int) -> Ints:
    """Return the rank of each of `number` rows in a random order."""
    return np.argsort(np.random.default_rng(seed).permutation(number))


def split_rows(labels: Sequence[str], partition: Partition) -> Ints:
    """Return the party, from 0, of each of `labels`, shape (rows,).

    Equal seeds give equal parts. Each class is shuffled and cut by proportions from Dirichlet(alpha, ..., alpha); a
    party may get no row.
    """
    generator = np.random.default_rng(partition.seed)
    names = np.array(labels, dtype=str)
    parties = np.empty(len(names), dtype=np.int64)
    for name in np.unique(names):
        positions = generator.permutation(np.flatnonzero(names == name))
        shares = generator.dirichlet(np.full(partition.parties, partition.alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(positions)).astype(np.int64)
        for party, part in enumerate(np.split(positions, cuts)):
            parties[part] = party
    return parties
