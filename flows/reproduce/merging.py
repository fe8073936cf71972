"""Take the cells of other machines and days from a file, next to those that are stored here."""

from collections import Counter
from collections.abc import Mapping, Sequence

from connectors.interfaces.counts import counted
from flows.reproduce.answers import Answers
from flows.reproduce.matrices import Matrix
from flows.reproduce.recorded_cells import RecordedCell

GONE = "no comparison has them any more"
CHANGED = "their settings have changed since"
UNFIT = (
    "they are of other step versions or data than the cells of this comparison that are stored here"
)
OTHERS = "they are of other step versions or data than cells that would run here now"


def take_cells(
    matrices: Sequence[Matrix],
    answers: Answers,
    filed: Mapping[str, Sequence[RecordedCell]],
    *,
    is_continued: bool = False,
    of_others: Mapping[str, Sequence[RecordedCell]] | None = None,
) -> list[str]:
    """Add the cells of a file that still count to the answers; return those left out, with reasons.

    A cell counts if its comparison has one with equal settings, and if the stored cells of the comparison are of the
    same steps and data. It stays if the same cell was run here again, whose noise is new; stored cells replace equal
    ones of other steps or data. The rows of a comparison are compared with each other, and may not come from different
    steps or data. Equal cells of several comparisons are one result: a cell that is not filed for its own comparison
    is that of another one in `filed` or `of_others`. With `is_continued` further cells of the matrices run here: filed
    cells must fit them too, and those of other rows, which the matrices need not have, are passed over.
    """
    left_out: Counter[tuple[str, str]] = Counter()
    by_name = {matrix.name: matrix for matrix in matrices}
    for comparison, entries in filed.items():
        matrix = by_name.get(comparison)
        if matrix is None:
            left_out[comparison, GONE] += len(entries)
            continue
        for reason in _take(matrix, answers, entries, is_continued):
            left_out[comparison, reason] += 1
    known = [entry for entries in {**(of_others or {}), **filed}.values() for entry in entries]
    for matrix in matrices:
        _take_equal(matrix, answers, known, is_continued)
    return [
        f"{comparison}: {counted(number, 'cell')}, because {reason}"
        for (comparison, reason), number in left_out.items()
    ]


def _take(
    matrix: Matrix, answers: Answers, entries: Sequence[RecordedCell], is_continued: bool
) -> list[str]:
    """Add the cells of one comparison; return the reason of each that is left out."""
    stored = answers.stored(matrix.cells)
    names = {(cell.row, cell.column, cell.seed) for cell in matrix.cells}
    by_settings = {cell.settings: cell for cell in matrix.cells}
    reasons = []
    for entry in entries:
        cell = by_settings.get(entry.settings)
        if cell is None:
            if entry.labels in names:
                reasons.append(CHANGED)
            elif not is_continued:
                reasons.append(GONE)
        elif cell.key in stored and not _stays(entry, stored[cell.key]):
            continue
        elif not entry.fits(stored.values()):
            reasons.append(UNFIT)
        elif is_continued and not answers.would_fit(cell, entry):
            reasons.append(OTHERS)
        else:
            answers.take(matrix.name, cell, entry)
    return reasons


def _stays(entry: RecordedCell, stored: RecordedCell) -> bool:
    """Return True if a filed result stays although the same cell is stored here."""
    is_same_run = entry.result.run_id == stored.result.run_id
    return not is_same_run and entry.is_done and entry.fits([stored])


def _take_equal(
    matrix: Matrix, answers: Answers, known: Sequence[RecordedCell], is_continued: bool
) -> None:
    """Add results of equal cells of other comparisons for the cells that have no filed result."""
    by_settings = {entry.settings: entry for entry in reversed(known) if entry.is_done}
    present = answers.of(matrix.name, matrix.cells)
    entries = [
        by_settings[cell.settings]
        for cell in matrix.cells
        if cell.settings in by_settings and not answers.has_taken(matrix.name, cell)
    ]
    _take(matrix, answers, [entry for entry in entries if entry.fits(present)], is_continued)
