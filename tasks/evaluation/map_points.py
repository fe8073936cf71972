"""Points of the map of synthetic and real texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from connectors.interfaces.embedding import Matrix
from tasks.metrics.metrics import map_2d, thinned
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.writing.texts import read_samples, read_vectors, reference_rows

Point = tuple[float, float]

MAP_POINTS = 600
"""Maximum number of points of each kind on the map; more points would overlap."""


MAP_CHARACTERS = 200
"""Characters of each synthetic text in the data of the map."""


@dataclass(frozen=True, slots=True)
class MapPoints:
    """Embeddings of synthetic texts, test rows and prompt examples on a plane.

    The map never contains private rows.
    `by`: name of the projection. `labels`, `texts`: class and beginning of each synthetic text. `test_labels`: class of
    each test row. All three are empty in reports of earlier versions.
    """

    synthetic: tuple[Point, ...]
    test: tuple[Point, ...]
    shown: tuple[Point, ...] = ()
    by: str = "principal axes"
    labels: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    test_labels: tuple[str, ...] = ()


def map_points(
    tools: Tools,
    written: Sequence[TextTable],
    real: tuple[Reference | None, Reference | None],
    seed: int,
) -> MapPoints:
    """Return points of synthetic and `real` texts (test rows, prompt examples).

    No text is private. The plane comes from the first two principal axes.
    """
    samples = read_samples(tools, written, ["sample_id", "text", "label"])
    drawn = thinned(len(samples), MAP_POINTS, seed)
    samples = samples.iloc[drawn]
    vectors = read_vectors(tools, written, drawn)
    test_rows, shown_rows = real
    test_labels: list[str] = []
    test = vectors[:0]
    shown = vectors[:0]
    if test_rows is not None:
        test_labels, test = _points(tools, test_rows, seed)
    if shown_rows is not None:
        _, shown = _points(tools, shown_rows, seed)
    # One projection of all points: separate axes would not be comparable.
    points = map_2d(np.concatenate([vectors, test, shown]))
    pairs = [(float(x), float(y)) for x, y in points]
    first = len(vectors)
    second = len(vectors) + len(test)
    return MapPoints(
        synthetic=tuple(pairs[:first]),
        test=tuple(pairs[first:second]),
        shown=tuple(pairs[second:]),
        by="principal axes",
        labels=tuple(map(str, samples["label"])),
        texts=tuple(str(text)[:MAP_CHARACTERS] for text in samples["text"]),
        test_labels=tuple(test_labels),
    )


def _points(tools: Tools, rows: Reference, seed: int) -> tuple[list[str], Matrix]:
    """Return classes and vectors of at most `MAP_POINTS` real rows."""
    frame, vectors = reference_rows(tools, rows)
    drawn = thinned(len(vectors), MAP_POINTS, seed)
    return [str(label) for label in frame["label"].iloc[drawn]], vectors[drawn]
