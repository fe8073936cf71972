"""Public vocabularies: terms of one or more words from a file, by rank."""

from typing import Any, Final

from connectors.interfaces.errors import InputError
from connectors.interfaces.rows import RowsRef, TermsRef
from connectors.rows.recipe_outputs import missing_hint
from connectors.rows.sources import display_path, open_source

MIN_DIMENSION: Final = 20
"""Least length of a word's vector in a text file; the lines of a file with shorter ones are terms."""


def read_terms(where: TermsRef) -> tuple[str, ...]:
    """Return all terms of a vocabulary, best rank first, ties in file order.

    Formats: csv, tsv, jsonl, parquet, a folder of them, `builtin:`, as for rows; or a text file (.txt) with one term
    per line, or one word per line before its vector (GloVe). Raises InputError for a missing file or column, and for an
    invalid rank.
    """
    source = RowsRef(where.path, text=where.term, label=where.rank)
    if where.path.endswith(".txt"):
        return tuple(_lines(where.path))
    columns = open_source(source)
    if where.term not in columns:
        raise InputError(
            f"{display_path(source)} has no column '{where.term}'. Columns: {', '.join(columns) or 'none'}."
        )
    terms = [str(term) for term in columns[where.term] if term is not None]
    if not where.rank or len(terms) < len(columns[where.term]):
        return tuple(terms)
    if where.rank not in columns:
        raise InputError(
            f"{display_path(source)} has no rank column '{where.rank}'. Set vocabulary.rank to '' for the file's order."
        )
    ranks = [_number(rank, source, row) for row, rank in enumerate(columns[where.rank])]
    # Python's sort is stable: equal ranks stay in the order of the file.
    return tuple(terms[row] for row in sorted(range(len(terms)), key=ranks.__getitem__))


def _number(rank: Any, source: RowsRef, row: int) -> float:
    try:
        return float(rank)
    except (TypeError, ValueError):
        raise InputError(
            f"{display_path(source)}, row {row}: the rank of a term is not a number"
        ) from None


def _has_vector(line: str) -> bool:
    """Return whether a line is a word with its vector of at least MIN_DIMENSION numbers."""
    _, *numbers = line.split(" ")
    try:
        return len([float(number) for number in numbers]) >= MIN_DIMENSION
    except ValueError:
        return False


def _lines(path: str) -> list[str]:
    import fsspec

    try:
        with fsspec.open(path, encoding="utf-8", mode="r") as file:
            lines = (line.strip() for line in file if line.strip())
            first = next(lines, "")
            if _has_vector(first):
                return [line.split(" ", 1)[0] for line in (first, *lines)]
            if not first:
                return []
            return [first, *lines]
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist. {missing_hint(path)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as UTF-8 text with one term per line ({error})."
        ) from error
