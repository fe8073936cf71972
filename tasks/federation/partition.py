"""Split rows among parties for experiments, by a Dirichlet draw per class.

Yurochkin et al. 2019, section 4, and Hsu et al. 2019 (here per class, as in the WASP paper with alpha 1). A smaller
alpha makes the classes of the parties more different.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError

Ints = NDArray[np.int64]

TRIES = 100


@dataclass(frozen=True, slots=True)
class Partition:
    """Parameters: number of parties, Dirichlet alpha, seed, least rows of a party; and those of every party's file.

    `epsilon`: cap. `embedder`: CONNECTOR:MODEL. `colluding`: colluding parties that every run must tolerate.
    """

    parties: int
    alpha: float = 1.0
    seed: int = 0
    least: int = 1
    epsilon: float = 4.0
    embedder: str = "sentence_transformers:embedded"
    colluding: int = 1


def row_order(number: int, seed: int) -> Ints:
    """Return the rank of each of `number` rows in a random order."""
    return np.argsort(np.random.default_rng(seed).permutation(number))


def split_rows(labels: Sequence[str], partition: Partition) -> Ints:
    """Return the party, from 0, of each of `labels`, shape (rows,).

    Equal seeds give equal parts. Each class is shuffled and cut by proportions from Dirichlet(alpha, ..., alpha). The
    whole draw is repeated while a party has fewer than `least` rows. Raises ConfigError after a hundred draws.
    """
    generator = np.random.default_rng(partition.seed)
    names = np.array(labels, dtype=str)
    for _ in range(TRIES):
        parties = np.empty(len(names), dtype=np.int64)
        for name in np.unique(names):
            positions = generator.permutation(np.flatnonzero(names == name))
            shares = generator.dirichlet(np.full(partition.parties, partition.alpha))
            cuts = np.round(np.cumsum(shares)[:-1] * len(positions)).astype(np.int64)
            for party, part in enumerate(np.split(positions, cuts)):
                parties[part] = party
        if np.bincount(parties, minlength=partition.parties).min() >= partition.least:
            return parties
    raise ConfigError(
        f"None of {TRIES} draws gave each of {partition.parties} parties {partition.least} row(s). Raise alpha, or use "
        "fewer parties."
    )
