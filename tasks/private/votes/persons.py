"""Protection of persons: at most m rows of each person vote, and their votes are combined."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.private.votes.ballot import Ballot

Ints = NDArray[np.int64]


def selected_rows(ballot: Ballot, rows_per_person: int) -> NDArray[np.bool_]:
    """Return which rows vote, shape (M,): all, or `rows_per_person` of each person.

    A keyed hash of the row makes the choice. It depends on the person's own rows only, so the presence of other persons
    cannot change it.
    """
    selected = np.ones(len(ballot.labels), dtype=np.bool_)
    if ballot.persons is None:
        return selected
    taken: dict[str, int] = {}
    # Sorted by hash: neither the order of rows in the source nor other persons decide.
    for _, row in sorted((_hash(ballot, row), row) for row in range(len(selected))):
        person = ballot.persons[row]
        taken[person] = taken.get(person, 0) + 1
        selected[row] = taken[person] <= rows_per_person
    return selected


def join(persons: Sequence[str], rows: Ints, bins: Ints, weights: Ints) -> tuple[Ints, Ints]:
    """Return (bins, votes) with one vote per person and bin, the largest of a row.

    `rows`, `bins`, `weights`: one entry per vote. The L2 norm of a person's joined votes is at most sqrt(m) times a
    row's.
    """
    of_rows = _codes(persons)
    pairs, positions = np.unique(np.stack([of_rows[rows], bins]), axis=1, return_inverse=True)
    most = np.zeros(pairs.shape[1], dtype=np.int64)
    np.maximum.at(most, positions.ravel(), weights)
    return pairs[1], most


def average(
    persons: Sequence[str], selected: NDArray[np.bool_], votes: tuple[Ints, Ints, Ints]
) -> tuple[Ints, Ints]:
    """Return (bins, votes) with each person's votes averaged over their voting rows.

    Averages are rounded down. `votes`: rows, bins and weights, one entry per vote. The L2 norm of a person's averaged
    votes is at most that of one row.
    """
    rows, bins, weights = votes
    of_rows = _codes(persons)
    row_counts = np.bincount(of_rows[selected], minlength=int(of_rows.max(initial=-1)) + 1)
    pairs, positions = np.unique(np.stack([of_rows[rows], bins]), axis=1, return_inverse=True)
    total = np.zeros(pairs.shape[1], dtype=np.int64)
    np.add.at(total, positions.ravel(), weights)
    return pairs[1], total // row_counts[pairs[0]]


def _codes(persons: Sequence[str]) -> Ints:
    codes = {person: code for code, person in enumerate(dict.fromkeys(persons))}
    return np.array([codes[person] for person in persons], dtype=np.int64)


def _hash(ballot: Ballot, row: int) -> bytes:
    content = hashlib.blake2b(
        ballot.labels[row].encode(errors="surrogatepass"), key=ballot.key, digest_size=32
    )
    content.update(b"\x00" + ballot.vectors[row].tobytes())
    return content.digest()
