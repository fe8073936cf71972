"""The same proposals from bfloat16 products of the processor, through torch: a wider net, and what is in it measured.

Half of each number's bits are left out, which some processors multiply two to four times as fast. The margins grow by
what that can change at most; rows for which they are too wide are compared in float32.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.base import MissingPackageError
from tasks.private.comparing import up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.blocks import Proposals, Spans, Task
    from tasks.private.comparing import Standing
    from tasks.private.crew import Crew

    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

ROWS: Final = 1024
"""Rows that are compared together at most."""
COLUMNS: Final = 1024
SPARE: Final = 56
"""Candidates that a row keeps beyond its votes: as many as lie within the margins where texts are many."""
LARGE: Final = 10**11
"""Multiplications from which on they are halved if torch is loaded anyway; below, little is gained."""
IMMENSE: Final = 10**12
"""Multiplications that are worth loading it."""
ROUNDING: Final = 2.0**-8
"""What a number changes at most by being rounded to bfloat16, which has eight bits for it, relative to it."""
FEWEST: Final = 64
"""Rows of a class from which on products take longer than to shorten the candidates' numbers."""
BLOCK: Final = 2048


def ready(rows: int, classes: int, size: int) -> bool:
    """Say whether an election of so many rows and numbers of candidates is large enough, and the processor able."""
    multiplications = rows * size // max(classes, 1)
    if rows < FEWEST * classes or multiplications < (LARGE if "torch" in sys.modules else IMMENSE):
        return False
    from tasks.training import computes_bfloat16

    try:
        return computes_bfloat16()
    except MissingPackageError:
        return False


def lost(vectors: Vectors) -> Floats:
    """Return the length of what rounding to bfloat16 takes from each vector, (n,)."""
    import torch

    whole = torch.tensor(vectors)
    gaps = whole - whole.to(torch.bfloat16).float()
    return np.asarray(torch.linalg.vector_norm(gaps, dim=1, dtype=torch.float64).numpy())


def most_lost(vectors: Vectors, crew: Crew) -> float:
    """Return the most that rounding takes from a vector; block by block."""
    starts = range(0, len(vectors), BLOCK)
    return max(crew.map(lambda start: float(lost(vectors[start : start + BLOCK]).max()), starts), default=0.0)


def margins(vectors: Vectors, squares: Floats, longest: Floats, most: float) -> Floats:
    """Bound what bfloat16 adds to the margins of these rows in float32 (`comparing.margins`).

    Rounded vectors x - a and y - b have a product that differs by |a||y| + |x - a||b| at most, and is rounded once
    more. A distance has it twice. The factor is for how lengths were computed, the last term for numbers so small that
    a processor may take them for 0. longest: of each row's candidates; most: what one of them loses (`most_lost`).
    """
    lengths, gone = np.sqrt(squares), lost(vectors)
    products = gone * longest + (lengths + gone) * most
    rounded = ROUNDING * (lengths + gone) * (longest + most)
    small = (vectors.shape[1] + 8) * 2.0**-120 * (1 + lengths + longest)
    return np.asarray(2 * (1 + 2.0**-10) * (products + rounded) + small)


def propose(task: Task, standing: Standing, spans: Spans, proposed: Proposals, block: int) -> None:
    """Fill `proposed` as `tasks.private.blocks.propose` does."""
    import torch

    from tasks.private.blocks import SLACK
    from tasks.private.compiled import scan

    slacks, width = up(SLACK * task.margin), min(block, COLUMNS)
    with torch.inference_mode():
        scaled = torch.tensor(task.vectors * np.float32(-2)).to(torch.bfloat16)
        room = torch.empty(max(len(one.rows) * min(width, one.size) for one in task.groups), dtype=torch.bfloat16)
        for span, rows, group in task.looks(spans):
            found = proposed.of(rows)
            for first, members in group.parts(*span, width):
                theirs = torch.tensor(standing.vectors[members]).to(torch.bfloat16)
                tile = room[: len(group.rows) * len(theirs)].view(len(group.rows), len(theirs))
                torch.mm(scaled[rows], theirs.T, out=tile)
                start = first, found.votes
                scan(tile.float().numpy(), standing.squares[members], start, slacks[rows], found.values, found.places)
                if group.marking and standing.marks is not None:
                    standing.marks.read(members)


class _Threads:
    """How many threads new threads' products had; votes of one process at the same time share the restraint."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = Lock(), 0, 1


_THREADS: Final = _Threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """Give torch's products one thread each while inside, also in threads that begin there.

    torch keeps the number for each thread that has used it, and one for those that begin later.
    """
    import torch

    own = torch.get_num_threads()
    with _THREADS.lock:
        if not _THREADS.inside:
            _THREADS.before = own
        own = _THREADS.before if own == 1 else own  # it may have begun while another vote was inside
        _THREADS.inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _THREADS.lock:
            _THREADS.inside -= 1
            torch.set_num_threads(own)
            if _THREADS.inside:  # threads that begin now belong to a vote that is still inside
                other = Thread(target=torch.set_num_threads, args=(1,))
                other.start()
                other.join()
