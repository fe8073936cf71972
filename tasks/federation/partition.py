"""Split rows among parties for experiments, by a Dirichlet draw per class.

Yurochkin et al. 2019, section 4, and Hsu et al. 2019 (here per class, as in the WASP paper with alpha 1). A smaller
alpha makes the classes of the parties more different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import ALPHAS
from tasks.core.allocation import unbalanced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

TRIES = 100


@dataclass(frozen=True, slots=True)
class Partition:
    """Parameters of a split of rows among parties; ConfigError for numbers out of range.

    `parties`: L. `alpha`: of the Dirichlet distribution. `least`: least rows of a party. `class_alpha`: first take
    `take` rows with class proportions from Dirichlet(`class_alpha`), so that the parties' rows together are unbalanced.
    """

    parties: int
    alpha: float = 1.0
    seed: int = 0
    least: int = 1
    take: int | None = None
    class_alpha: float | None = None

    def __post_init__(self) -> None:
        alpha, (least, most) = self.class_alpha, ALPHAS
        if self.parties < 2 or self.seed < 0 or self.least < 0:
            raise ConfigError("parties, seed, least: a number is too small. Write 2 or more parties, others from 0.")
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ConfigError(f"alpha: {self.alpha} is not allowed. Write a positive number: 1 as in the paper.")
        if alpha is not None and (not least <= alpha <= most or self.take is None):
            raise ConfigError(
                f"class_alpha: {alpha} is not allowed without take, or outside {least:g} to {most:g}. Write a number "
                "such as 0.3, and take."
            )


def take_unbalanced(labels: Sequence[str], take: int, alpha: float, seed: int) -> Ints:
    """Return the sorted indices of `take` rows whose classes have proportions from Dirichlet(alpha, ..., alpha)."""
    names = np.array(labels, dtype=str)
    order = np.random.default_rng(seed).permutation(len(names))
    counts = unbalanced(Counter(sorted(names.tolist())), min(take, len(names)), alpha, seed)
    return np.sort(np.concatenate([order[names[order] == name][:number] for name, number in counts.items()]))


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
