"""What attackers hold after one run with canaries: its texts, its noisy votes, and all rows; not the coins."""

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
    """One release as an attacker sees it: candidates, and noisy `counts` (n, 2) in votes, near and far."""

    candidates: Candidates
    counts: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A run's synthetic `texts` and `releases`, the canaries and the other rows (text, label) that took part.

    `fit` returns how likely texts are to a language model of the texts it is given.
    """

    texts: pd.DataFrame
    releases: Sequence[pd.DataFrame]
    canaries: Sequence[Canary]
    others: Sequence[tuple[str, str]]
    embedder: Embedder
    fit: Callable[[Sequence[str]], Callable[[str], float]]

    @property
    def included(self) -> NDArray[np.bool_]:
        """What the coins said, (canaries,)."""
        return np.array([one.included for one in self.canaries])

    @property
    def canary_texts(self) -> list[str]:
        """The texts of all canaries."""
        return [one.text for one in self.canaries]

    def ballots(self, vectors: Vectors, votes: int) -> tuple[Ballot, Ballot]:
        """Return the ballots of the other rows and of all canaries, whose `vectors` are known."""
        others = self.embedder.embed_alone([text for text, _ in self.others])
        labels = [label for _, label in self.others]
        return Ballot(others, labels, votes), Ballot(vectors, [one.label for one in self.canaries], votes)

    def seen(self, vectors: Vectors, scale: int) -> list[SeenVote]:
        """Return every release with its candidates; `vectors` of all texts, `scale` counts are one vote."""
        ids, labels = self.texts["sample_id"].to_numpy(np.int64), self.texts["label"].to_numpy(str)
        order = np.argsort(ids)
        found = []
        for release in self.releases:
            voted = release["sample_id"].to_numpy(np.int64)
            places = order[np.searchsorted(ids[order], voted)]
            counts = release[["near", "far"]].to_numpy(np.float64) / scale
            found.append(SeenVote(Candidates(voted, labels[places], vectors[places]), counts))
        return found
