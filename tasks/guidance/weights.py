"""Share of each language model (PLM) in the next texts.

Votes per model become weights, and weights become whole numbers that add up.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.guidance.examples import join_votes

Floats = NDArray[np.float64]


Transform = Literal["linear", "softmax"]


def weigh(
    release: pd.DataFrame,
    samples: pd.DataFrame,
    plms: Sequence[str],
    transform: Transform | None = "linear",
    previous: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Weigh each PLM by its near votes and its share of the samples (Eq. 8).

    s_i = H_i / sum H;  w_k = (sum of s_i over D_k) / (|D_k| / |D|); a PLM's negative total counts as 0. If the sum of
    all noisy votes is not positive, it contains no information and the previous weights stay (uniform at first). A PLM
    without samples has w_k = 1, the mean.

    `release`: sample_id, near; `samples`: sample_id, plm. `transform`: scaling of the weights; None for uniform ones.
    Returns plm, share (of the votes, adds up to 1), weight (normalised, adds up to 1), in the order of `plms`.
    """
    uniform = np.full(len(plms), 1 / len(plms))
    before = uniform
    if previous is not None:
        before = _normalised([previous[plm] for plm in plms])
    shares = uniform
    weights = uniform
    if transform is not None:
        totals, sizes = _totals(release, samples, plms)
        shares = before
        weights = before
        if totals.sum() > 0:
            # Noise can make a model's total negative, which no share can be.
            shares = _normalised(np.maximum(totals, 0))
            weights = np.ones_like(shares)
            np.divide(shares, sizes / sizes.sum(), out=weights, where=sizes > 0)
            if transform == "softmax":
                weights = np.exp(weights - weights.max())
            weights = _normalised(weights)
    return pd.DataFrame({"plm": list(plms), "share": shares, "weight": weights})


def _totals(
    release: pd.DataFrame, samples: pd.DataFrame, plms: Sequence[str]
) -> tuple[Floats, Floats]:
    """Return near votes and number of released samples per PLM."""
    votes = join_votes(release, samples[["sample_id", "plm"]])
    codes = pd.Index(plms).get_indexer(pd.Index(votes["plm"]))
    sums = np.zeros(len(plms))
    sizes = np.zeros(len(plms))
    np.add.at(sums, codes, votes["near"])
    np.add.at(sizes, codes, 1)
    return sums, sizes


def _normalised(values: Sequence[float] | Floats) -> Floats:
    normal = np.array(values, dtype=np.float64)
    normal /= normal.sum()
    return normal
