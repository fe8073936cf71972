"""Values that steps pass to each other; each step defines its own job beside itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.rows import RowsRef

AHEAD = "ahead="
"""Begins the part of texts that are only looked at: they never join the data set."""

Weights = dict[str, float]
"""Weight of each PLM by name, adding up to 1 (w_k in the paper, normalised)."""


@dataclass(frozen=True, slots=True)
class Written:
    """The texts of one PLM in one iteration, and their embeddings once they exist.

    `down`: why the PLM wrote nothing, empty if it wrote. `part`: the folder of these texts within the iteration, empty
    for new ones. `stands_on`: what the vectors were made of where that is more than these texts, as a digest.
    """

    plm: str
    iteration: int
    samples: ArtifactRef
    vectors: ArtifactRef | None = None
    down: str = ""
    part: str = ""
    stands_on: str = ""

    @property
    def looks_ahead(self) -> bool:
        """Whether these texts are variations that were only looked at."""
        return self.part.startswith(AHEAD)


@dataclass(frozen=True, slots=True)
class Reference:
    """Real rows to measure against: `kind` test | public, where they lie, the digest of their content.

    With `terms`, a table of terms, only the first `phrases` different ones of each text are measured against.
    """

    kind: str
    where: RowsRef
    content: str
    terms: ArtifactRef | None = None
    phrases: int = 0


@dataclass(frozen=True, slots=True)
class Overlap:
    """The answer: whether no run of `words` words of a private row stands in a text, and where the owner reads more."""

    passed: bool
    words: int
    details: Path | None = None
    mark: str = field(default="not private", init=False)
