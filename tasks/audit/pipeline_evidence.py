"""Evidence of attackers after one run with canaries.

They have its texts, its noisy votes and all rows, but not the coins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.embedding import Embedder
from tasks.audit.canaries import Canary
from tasks.private.voting.ballot import Ballot, Candidates

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class SeenVote:
    """One release for an attacker.

    The candidates, and noisy `counts` (n, 2) in votes, near and far.
    """

    candidates: Candidates
    counts: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The evidence of one run.

    Its synthetic `texts` and `releases`, the canaries, and the other rows (text, label) that took part. `fit` trains a
    language model on texts and returns its likelihood of a text.
    """

    texts: pd.DataFrame
    releases: Sequence[pd.DataFrame]
    canaries: Sequence[Canary]
    others: Sequence[tuple[str, str]]
    embedder: Embedder
    fit: Callable[[Sequence[str]], Callable[[str], float]]

    @property
    def included(self) -> NDArray[np.bool_]:
        """The results of the coins, (canaries,)."""
        return np.array([canary.included for canary in self.canaries])

    @property
    def canary_texts(self) -> list[str]:
        """The texts of all canaries."""
        return [canary.text for canary in self.canaries]

    def ballots(self, vectors: Vectors, votes: int) -> tuple[Ballot, Ballot]:
        """Return the ballots of the other rows and of all canaries, with their `vectors`."""
        others = self.embedder.embed_alone([text for text, _ in self.others])
        labels = [label for _, label in self.others]
        return Ballot(others, labels, votes), Ballot(vectors, [canary.label for canary in self.canaries], votes)

    def seen(self, vectors: Vectors, scale: int) -> list[SeenVote]:
        """Return every release with its candidates.

        `vectors` of all texts, `scale` counts are one vote.
        """
        ids, labels = self.texts["sample_id"].to_numpy(np.int64), self.texts["label"].to_numpy(str)
        order = np.argsort(ids)
        releases = []
        for release in self.releases:
            voted = release["sample_id"].to_numpy(np.int64)
            positions = order[np.searchsorted(ids[order], voted)]
            counts = release[["near", "far"]].to_numpy(np.float64) / scale
            releases.append(SeenVote(Candidates(voted, labels[positions], vectors[positions]), counts))
        return releases
