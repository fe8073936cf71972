"""What each step is asked to do: plain frozen values, so that a step's key can be made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.interfaces.base import (ArtifactRef, Look, RowsRef)
from tasks.accounting.votes import Noise
from tasks.text.class_balance import Shares
from tasks.accounting.density import GuidanceNoise
from tasks.density.kernels import Kernel
from tasks.accounting.moments import MomentsNoise
from tasks.text.prompts import TaskCard
from tasks.selection.survivors import Survival
from tasks.students.train import StudentSpec
from tasks.text.variation import (USUAL, Manner)
from tasks.selection.weights import Transform

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
class Seeds:
    """What prompts are seeded with: a table of sequences (label, phrases), real texts that are shown in prompts.

    `shown`: rows that their owner gave away for prompts; `examples` of them in each. `disclose`: the class is named.
    `first`, `models`: the place of the PLM among those that share the sequences, and how many they are.
    """

    sequences: ArtifactRef
    shown: Reference | None = None
    examples: int = 0
    disclose: bool = False
    first: int = 0
    models: int = 1


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One PLM writes `count` texts in one iteration, balanced over the classes of `card`, or dealt by `shares`.

    `offset`: texts dealt to classes before, so that spare ones rotate. `examples`: the selection of the iteration
    before, None for zero-shot; `examples_per_prompt` of them (S) per prompt. `earlier`: what must not be repeated.

    `manner`: what prompts tell, and how texts are varied. With `parents` the PLM varies texts of these tables, those
    of the PLM `only` if one is named: `copies` of each (as often as its column `times` says), or, without copies,
    `count` in all, parents in turn. `part`: a folder of its own within the iteration. With `seeds` each prompt asks for
    phrases of its own; with `words`, a table of terms, each for a new text names some, drawn at random.
    """

    plm: str
    plm_index: int
    iteration: int
    count: int
    offset: int
    card: TaskCard
    examples_per_prompt: int
    contrast: bool
    seed: int
    examples: ArtifactRef | None = None
    earlier: tuple[ArtifactRef, ...] = ()
    manner: Manner = USUAL
    parents: tuple[ArtifactRef, ...] = ()
    copies: int = 0
    only: str = ""
    part: str = ""
    seeds: Seeds | None = None
    words: ArtifactRef | None = None
    words_per_prompt: int = 1
    shares: Shares = ()


@dataclass(frozen=True, slots=True)
class GuideSpec:
    """The density of the private rows: its noise, its kernel, its classes; other fields as in VoteSpec."""

    dataset: str
    fingerprint: str
    noise: GuidanceNoise
    kernel: Kernel
    labels: tuple[str, ...]
    respend: bool
    needed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SelectJob:
    """Take `examples` (S) good and bad texts per class from the release of `iteration`.

    `kernel`: of the density that was released; None where rows voted. `smooth`: neighbours tell of a text's votes too.
    `per_hub`: so many bad examples, at most, lie close together; 0: any number.
    """

    iteration: int
    examples: int
    kernel: Kernel | None = None
    smooth: bool = False
    per_hub: int = 0


@dataclass(frozen=True, slots=True)
class WeighJob:
    """Turn the release of `iteration` into weights; `previous` stay if the noisy votes say nothing.

    `transform`, `temperature`: linear, or softmax(w / temperature). `kernel`, `smooth` as in SelectJob.
    """

    iteration: int
    plms: tuple[str, ...]
    weighting: bool
    previous: Mapping[str, float]
    transform: Transform = "linear"
    temperature: float = 1.0
    kernel: Kernel | None = None
    smooth: bool = False


@dataclass(frozen=True, slots=True)
class SettleJob:
    """Keep the part `keep` of all texts, the set that matches the released density best; `seed` deals large classes."""

    iteration: int
    kernel: Kernel
    keep: float
    seed: int


@dataclass(frozen=True, slots=True)
class SurviveJob:
    """Choose the texts of a population that live on by the release of `iteration`."""

    iteration: int
    survival: Survival


@dataclass(frozen=True, slots=True)
class VoteSpec:
    """One vote of the private rows: its noise, Q, and what of the texts so far stands for election.

    `fingerprint`: keyed name of the private dataset; `dataset`: its name in the budget book. `needed`: usable texts of
    each class without which nothing is released (`tasks.text.usable_texts`).
    """

    iteration: int
    dataset: str
    fingerprint: str
    noise: Noise
    scope: str
    respend: bool
    needed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasureJob:
    """Measure the texts of `written` against real rows.

    `fid`: the reference of FID, test | public | private | none; `fingerprint` names the private dataset; `look` is what
    the budget book is told when FID is taken against private rows, None else.
    """

    iteration: int
    written: tuple[Written, ...]
    fid: str
    test: Reference | None
    public: Reference | None
    fingerprint: str
    seed: int
    look: Look | None = None


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy moments of the private rows, `release`, along the directions of `plane`."""

    release: ArtifactRef
    plane: ArtifactRef
    noise: MomentsNoise


@dataclass(frozen=True, slots=True)
class Shift:
    """Move vectors of texts, class by class, to where a released density (`release`, of `kernel`) expects rows."""

    release: ArtifactRef
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class TrainJob:
    """Train the student on all texts and test it on real rows.

    `unlabelled`: public rows that it adapts to; `moments`: those of private rows, which it adapts to in their place.
    `shift`: how the vectors that it learns from are moved.
    """

    written: tuple[Written, ...]
    student: StudentSpec
    labels: tuple[str, ...]
    test: Reference | None
    unlabelled: Reference | None = None
    moments: Moments | None = None
    shift: Shift | None = None


@dataclass(frozen=True, slots=True)
class JudgeJob:
    """Train a student on the texts of one PLM and let it judge those of all; `student` says how."""

    plm: str
    iteration: int
    written: tuple[Written, ...]
    student: StudentSpec
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FuseJob:
    """Choose `examples` (S) texts among `pool` times as many candidates, of which the share `ambiguous` is ambiguous.

    `by_class`: for each class among its own texts; else once among all, shown to every class. `with_own`: whether the
    student that was trained on a text has a say in its confidence and variability.
    """

    iteration: int
    labels: tuple[str, ...]
    examples: int
    pool: int
    ambiguous: float
    by_class: bool
    with_own: bool
