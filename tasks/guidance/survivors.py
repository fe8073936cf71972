"""Select the survivors of a population by noisy votes, as in private evolution.

Lin et al. 2024 (PE), Xie et al. 2024 (Aug-PE), Hou et al. 2024 (PrE-Text). All of it is post-processing of a release.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.guidance.examples import join_votes
from tasks.writing.prompts import seed_of

Rule = Literal["rank", "draw"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Survival:
    """Number of surviving texts of each class (`counts`), and the selection rule.

    `rule`: "rank", the texts with most votes, or "draw", as many draws with replacement, with probabilities
    proportional to votes. `threshold` (H): subtracted from every count first, in standard deviations of the noise;
    negative results count as 0.
    """

    counts: Mapping[str, int]
    rule: Rule = "rank"
    threshold: float = 0.0
    seed: int = 0


def survivors(
    release: pd.DataFrame, samples: pd.DataFrame, survival: Survival, sigma_int: float
) -> pd.DataFrame:
    """Return the surviving texts, most votes first.

    Adds the columns kind, rank, score and times. `release`: sample_id, near. `samples`: the population, one row per
    text. `times`: number of draws (1 under "rank"). Equal scores, and classes where no count exceeds the threshold, are
    decided at random, seeded by the run: the noisy votes contain no information there. A class without candidates has
    no survivor. ArtifactError if the tables do not match.
    """
    votes = join_votes(release, samples)
    chosen = [
        _of_class(votes[votes["label"] == label], label, survival, sigma_int)
        for label in survival.counts
    ]
    table = pd.concat(
        [votes.iloc[:0].assign(score=[], times=[], rank=[]), *chosen], ignore_index=True
    )
    survived = samples.merge(table[["sample_id", "score", "times", "rank"]], on="sample_id").assign(
        kind="good"
    )
    types = {"score": "float64", "times": "int64", "rank": "int64"}
    return survived.sort_values(["label", "rank"], kind="stable", ignore_index=True).astype(types)


def _of_class(
    votes: pd.DataFrame, label: str, survival: Survival, sigma_int: float
) -> pd.DataFrame:
    # The noisy votes are part of the seed: two iterations of a run must not draw the same lots.
    generator = np.random.default_rng(
        seed_of("survive", survival.seed, label, *votes["near"].tolist())
    )
    passed = np.maximum(
        votes["near"].to_numpy(dtype=np.float64) - survival.threshold * sigma_int, 0
    )
    count = survival.counts[label]
    rule = _ranked
    if survival.rule == "draw":
        rule = _drawn
    times = np.zeros(0, dtype=np.int64)
    # A class without candidates has nothing to draw from.
    if len(votes):
        times = rule(passed, count, generator)
    # The lot decides between equal scores, which are frequent: all counts below the threshold are 0.
    ranked = votes.assign(score=passed, times=times, lot=generator.permutation(len(votes)))
    ranked = ranked[ranked["times"] > 0].sort_values(
        ["score", "lot"], ascending=[False, True], kind="stable"
    )
    return ranked.assign(rank=np.arange(1, len(ranked) + 1))


def _drawn(passed: Floats, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    total = passed.sum()
    chances = np.full(len(passed), 1 / len(passed))
    if total > 0:
        chances = passed / total
    return generator.multinomial(count, chances).astype(np.int64)


def _ranked(passed: Floats, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    times = np.zeros(len(passed), dtype=np.int64)
    times[np.lexsort((generator.permutation(len(passed)), -passed))[:count]] = 1
    return times
