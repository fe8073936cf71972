"""Values that steps pass to each other.

Each step defines its own job type next to its code.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.ledger import Charge, ReleaseRequest
from connectors.interfaces.rows import RowsRef

TRAINING: Final = "training"
"""Ledger name of a training by DP-SGD."""
PLAIN_TRAINING: Final = "train-0"
"""Ledger name of a training without noise on the private records: an exposure."""
GUIDANCE: Final = "guidance"
"""Ledger name of the density of the private records."""
AHEAD = "ahead="
"""Prefix of the part of texts that are only evaluated and never join the data set."""

SHARD: Final = "shard="
"""Prefix of the part of new texts that several tasks write for one model in one iteration."""

Weights = dict[str, float]
"""Weight of each PLM by name; the weights add up to 1 (w_k in the paper, normalised)."""


def scope_name(iteration: int, part: str) -> str:
    """Return an iteration and the part of its texts as the names of steps and progress lines have them."""
    return f"t={iteration} {part}".rstrip()


@dataclass(frozen=True, slots=True)
class ChargedDataset:
    """The private dataset that a release is charged to.

    `dataset`: its name in the ledger; `fingerprint`: the keyed name of its content. `respend` allows a second paid
    release if the files of the first are lost.
    """

    dataset: str
    fingerprint: str
    respend: bool = False

    def request(self, run_id: str, slot: str, step_key: str, charge: Charge) -> ReleaseRequest:
        """Return the request for one release of a run."""
        # The slot names a release within its run; the key says what it is a release of.
        return ReleaseRequest(self.dataset, run_id, slot, step_key, charge, self.respend)


@dataclass(frozen=True, slots=True)
class TextTable:
    """The texts of one PLM in one iteration, with their embeddings once these exist.

    `down`: why the PLM wrote nothing; empty if it wrote. `part`: the folder of these texts within the iteration, empty
    for new ones that one task wrote. `vector_inputs`: digest of the further inputs of the vectors, empty if there are
    none.
    """

    plm: str
    iteration: int
    samples: ArtifactRef
    vectors: ArtifactRef | None = None
    down: str = ""
    part: str = ""
    vector_inputs: str = ""

    @property
    def tables(self) -> list[ArtifactRef]:
        """The texts, and their embeddings if these exist."""
        if self.vectors is None:
            return [self.samples]
        return [self.samples, self.vectors]

    @property
    def scope(self) -> str:
        """The iteration and part, for the name of a step."""
        return scope_name(self.iteration, self.part)

    @property
    def is_new(self) -> bool:
        """True if these texts are not made from other texts."""
        return not self.part or self.part.startswith(SHARD)

    @property
    def looks_ahead(self) -> bool:
        """True if these texts are variations that are only evaluated."""
        return self.part.startswith(AHEAD)


@dataclass(frozen=True, slots=True)
class Reference:
    """Real rows to measure against.

    `kind`: test | public. `where`: their source. `content`: digest of their content. With `terms`, a table of terms,
    only the first `phrases` different terms of each text are used.
    """

    kind: str
    where: RowsRef
    content: str
    terms: ArtifactRef | None = None
    phrases: int = 0


@dataclass(frozen=True, slots=True)
class Overlap:
    """Result of the overlap check of synthetic texts with private rows.

    `passed`: no run of `words` words of a private row occurs in a synthetic text, nor of `values` named values if the
    texts are values. `details`: file with the matches, which only the owner of the private records may read.
    """

    passed: bool
    words: int
    details: Path | None = None
    values: int = 0
    mark: str = field(default="not private", init=False)

    @property
    def passage(self) -> str:
        """Least passage that is a copy."""
        if self.values:
            return f"{self.words} consecutive words or {self.values} consecutive values"
        return f"{self.words} consecutive words"
