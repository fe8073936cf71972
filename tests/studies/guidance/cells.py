"""One cell of the study: a whole run of rounds on vectors, with the product's releases, choices and measures.

What differs from `wasp run`: texts come from a pool, by the rule of recorded models
(connectors/models/base/recorded_draws.py), so that nothing is embedded again; no privacy ledger is involved.
Noise is the product's own, from the operating system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tasks.accounting.composition import Adjacency
from tasks.accounting.density import GuidanceNoise, calibrate_density
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate
from tasks.core.allocation import allocate, per_class
from tasks.density.kernels import Kernel
from tasks.density.matching import Density
from tasks.private.releases.density import noisy_density
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import noisy_votes
from tasks.selection.examples import select
from tasks.selection.smoothing import select_smoothly, weigh_smoothly
from tasks.selection.weights import Weighting, weigh
from tasks.steps.density import Texts, choose_examples, relate_to_density, weigh_by_density
from tests.studies.guidance.corpora import Corpus
from tests.studies.guidance.fusegen import fused, self_boosted
from tests.studies.guidance.measures import accuracy, appraised, of_a_random_part, of_all, of_the_final_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

SOFTNESS = 0.05
"""As recorded models have it where nothing else is said."""

DELTA = 1e-5
FLOORS = ("none", "fusegen", "central")
"""Without any private row: texts without examples; examples that FuseGen's students choose; or examples close to the
mean of the texts of their class."""

MAPS = {"central": "cosine", "clusters": "clusters", "subspace": "subspace", "kernel": "cosine"}
MECHANISMS = ("votes", "votes_smoothed", "clusters", "subspace", "kernel")
SILENT = 1e6
"""Noise beside which a density says nothing, so that all that is expected is the mean of texts."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is asked: mechanism (a floor, see FLOORS), epsilon (inf: no noise), M rows, seed, N, T, Q, S."""

    mechanism: str
    epsilon: float
    rows: int
    seed: int
    samples: int = 1200
    iterations: int = 5
    votes: int = 8
    examples: int = 8
    adjacency: Adjacency = "add_remove"


@dataclass(eq=False)
class World:
    """A run under way: which texts of the pool are written, private rows, a generator for all that is no noise."""

    corpus: Corpus
    cell: Cell

    def __post_init__(self) -> None:
        draw = np.random.default_rng([self.cell.seed, self.cell.rows])
        self.rows = draw.choice(len(self.corpus.train), self.cell.rows, replace=False)
        texts = self.corpus.texts
        self.free = np.ones(len(texts), dtype=bool)
        writers = pd.Index(self.corpus.plms).get_indexer(pd.Index(texts["plm"]))
        labels = texts["label"].to_numpy(dtype=str)
        self.pools = {
            (plm, label): np.flatnonzero((writers == plm) & (labels == label))
            for plm in range(len(self.corpus.plms))
            for label in self.corpus.labels
        }
        self.written: list[int] = []
        self.dealt = 0

    @property
    def private(self) -> tuple[Any, list[str]]:
        """Vectors and labels of the private rows."""
        return self.corpus.train[self.rows], self.corpus.train_labels[self.rows].tolist()

    @property
    def texts(self) -> Texts:
        """What is written so far, as steps see it."""
        places = np.array(self.written)
        frame = self.corpus.texts.iloc[places].assign(sample_id=places).reset_index(drop=True)
        return Texts(frame, self.corpus.vectors[places])

    def write(self, iteration: int, weights: Mapping[str, float], shown: Mapping[str, tuple[Ints, Ints]]) -> None:
        """Write a T-th of all texts: each PLM its share, classes in turn, by the examples of each class."""
        cell = self.cell
        share = cell.samples // cell.iterations
        for plm, (name, number) in enumerate(allocate(share, weights).items()):
            for label, count in per_class(number, self.corpus.labels, self.dealt).items():
                seed = [cell.seed, iteration, plm, self.corpus.labels.index(label)]
                self._draw(self.pools[plm, label], count, shown.get(label), np.random.default_rng(seed))
            self.dealt += number
            assert name == self.corpus.plms[plm]

    def _draw(self, pool: Ints, count: int, shown: tuple[Ints, Ints] | None, draw: np.random.Generator) -> None:
        liking = self._liking(pool, count, shown, draw) if shown is not None else np.zeros((count, len(pool)))
        for row in liking + draw.gumbel(size=liking.shape):
            open_to = self.free[pool]
            if not open_to.any():
                return
            place = int(pool[int(np.where(open_to, row, -np.inf).argmax())])
            self.free[place] = False
            self.written.append(place)

    def _liking(self, pool: Ints, count: int, shown: tuple[Ints, Ints], draw: np.random.Generator) -> Any:
        """Return how near each text lies to the good and how far from the bad examples of each prompt."""
        words, close = self.corpus.words, np.zeros((count, len(pool)))
        half = self.cell.examples // 2 if self.cell.mechanism != "fusegen" else self.cell.examples  # none of them bad
        for places, sign in zip(shown, (1.0, -1.0), strict=True):
            if not len(places):
                continue
            alike = np.asarray((words[places] @ words[pool].T).toarray())
            taken = np.argsort(draw.random((count, len(places))), axis=1)[:, :half]
            close += sign * alike[taken].mean(axis=1)
        return close / SOFTNESS


class Guide:
    """What private rows release, and what follows: examples and weights of each round."""

    def __init__(self, world: World, rows: tuple[Any, list[str]], epsilon: float, mechanism: str) -> None:
        self.world, self.rows, self.epsilon, self.mechanism = world, rows, epsilon, mechanism
        self.density: Density | None = None
        self.kernel: Kernel | None = None

    @cached_property
    def ideal(self) -> Guide:
        """The same mechanism with held-out rows and without noise; beside FuseGen, which has none, the kernel."""
        rows = (self.world.corpus.test, self.world.corpus.test_labels.tolist())
        found = Guide(self.world, rows, math.inf, "kernel" if self.mechanism == "fusegen" else self.mechanism)
        found.kernel = self.kernel
        return found

    def round(self, texts: Texts, iteration: int) -> tuple[pd.DataFrame, dict[str, float]]:
        """Return the selection and the weights after a round."""
        if self.mechanism == "fusegen":
            cell, corpus = self.world.cell, self.world.corpus
            equal = dict.fromkeys(corpus.plms, 1 / len(corpus.plms))
            return fused(texts, corpus, cell.examples, iteration, cell.seed), equal
        if self.mechanism in MAPS:
            return self._by_density(texts)
        return self._by_votes(texts, self.mechanism == "votes_smoothed")

    def _by_votes(self, texts: Texts, smooth: bool) -> tuple[pd.DataFrame, dict[str, float]]:
        cell, plms = self.world.cell, self.world.corpus.plms
        noise = vote_noise(cell.iterations - 1, cell.votes, self.epsilon, cell.adjacency)
        vectors, labels = self.rows
        ballot = Ballot(np.ascontiguousarray(vectors), labels, cell.votes)
        ids = texts.samples["sample_id"].to_numpy(dtype=np.int64)
        votes = noisy_votes(ballot, Candidates(ids, texts.labels, texts.vectors), noise)
        release = pd.DataFrame(votes.columns())
        if smooth:
            selection = select_smoothly(release, texts.samples, texts.vectors, cell.examples)
            table = weigh_smoothly(release, texts.samples, plms, Weighting(), noise.sigma_int)
        else:
            selection = select(release, texts.samples, cell.examples)
            table = weigh(release, texts.samples, plms, Weighting())
        return selection, dict(zip(table["plm"], table["weight"], strict=True))

    def _by_density(self, texts: Texts) -> tuple[pd.DataFrame, dict[str, float]]:
        beside = self.beside(texts)
        table = weigh_by_density(beside, self.world.corpus.plms, Weighting())
        selection = choose_examples(beside, self.world.cell.examples)
        return selection, dict(zip(table["plm"], table["weight"], strict=True))

    def beside(self, texts: Texts) -> Texts:
        """Return texts beside the density, which is released when it is first asked for."""
        if self.density is None or self.kernel is None:
            plain = Kernel(MAPS[self.mechanism])  # type: ignore[arg-type]
            self.kernel = self.kernel or plain.learn(texts.vectors)
            classes, (vectors, labels) = self.world.corpus.labels, self.rows
            if self.mechanism == "central" and math.isfinite(self.epsilon):
                width = self.kernel.width(vectors.shape[1])
                self.density = Density(classes, np.zeros((len(classes), width)), SILENT)
                return relate_to_density(texts, self.kernel, self.density)
            noise = density_noise(self.epsilon, self.world.cell.adjacency)
            ballot = Ballot(np.ascontiguousarray(vectors), labels, 1, sides=1)
            drawn = noisy_density(ballot, classes, self.kernel, noise)
            sums = drawn.sums.reshape(len(classes), -1) / drawn.steps
            self.density = Density(classes, sums, drawn.scale_int / drawn.steps)
        return relate_to_density(texts, self.kernel, self.density)


@cache
def vote_noise(releases: int, votes: int, epsilon: float, adjacency: Adjacency) -> Noise:
    """Return the noise of T - 1 votes."""
    return calibrate(VotePrivacy(epsilon, DELTA, releases, votes, adjacency=adjacency))


@cache
def density_noise(epsilon: float, adjacency: Adjacency) -> GuidanceNoise:
    """Return the noise of one density with the same promise."""
    return calibrate_density(VotePrivacy(epsilon, DELTA, 1, votes=1, sides=1, adjacency=adjacency))


def run(corpus: Corpus, cell: Cell) -> dict[str, float]:
    """Carry a cell out; return its measures."""
    world = World(corpus, cell)
    guide = Guide(world, world.private, cell.epsilon, cell.mechanism)
    equal = dict.fromkeys(corpus.plms, 1 / len(corpus.plms))
    weights: dict[str, float] = equal
    shown: dict[str, tuple[Ints, Ints]] = {}
    told: list[dict[str, float]] = []
    for iteration in range(cell.iterations):
        world.write(iteration, weights, shown)
        if iteration == cell.iterations - 1 or cell.mechanism == "none":
            continue
        texts = world.texts
        selection, weights = guide.round(texts, iteration)
        shown = examples_of(selection, corpus.labels)
        told.append(appraised(guide.ideal.round(texts, iteration), corpus, texts, selection, weights))
    found = {name: float(np.mean([one[name] for one in told])) for name in (told[0] if told else ())}
    return found | measured(world, guide)


def measured(world: World, guide: Guide) -> dict[str, float]:
    """Return FID and accuracy of all texts, and of a part of them: what matches the density, or a random one."""
    texts, corpus, seed = world.texts, world.corpus, world.cell.seed
    found = of_all(corpus, texts)
    if guide.mechanism in MAPS:
        return found | of_the_final_set(corpus, guide.beside(texts), seed)
    if guide.mechanism == "fusegen":
        found["weighted_accuracy"] = accuracy(corpus, texts, weights=self_boosted(texts, corpus, seed))
    return found | (of_a_random_part(corpus, texts, seed) if guide.mechanism in FLOORS else {})


def examples_of(selection: pd.DataFrame, labels: tuple[str, ...]) -> dict[str, tuple[Ints, Ints]]:
    """Return places of good and bad examples of each class."""
    found = {}
    for label in labels:
        own = selection[selection["label"] == label]
        found[label] = tuple(own[own["kind"] == kind]["sample_id"].to_numpy(dtype=np.int64) for kind in ("good", "bad"))
    return {label: both for label, both in found.items() if len(both[0])}  # type: ignore[misc]
