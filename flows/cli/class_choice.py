"""Choose the classes of records with their owner, for `wasp init` and `wasp dataset`: names become public."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import typer

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.text_forms import cell_form, check_class_name, class_order
from connectors.rows.other_forms import ONE_LABEL

if TYPE_CHECKING:
    from tasks.private.rows.survey import Survey

MIN_ROWS_OF_A_CLASS = 5
"""Records of a label that makes it a class without --class: a rarer one may be a typing error that shows one record."""
MAX_CLASSES = 200
SHOWN_LABELS = 20
BY_OPTION = "--class LABEL (repeatable)"
MISSING = frozenset(
    (
        "nan",
        "nat",
        "null",
        "(null)",
        "nil",
        "none",
        "na",
        "n/a",
        "n.a.",
        "<na>",
        "#n/a",
        "missing",
        "-",
        "--",
        "?",
        ".",
    )
)
"""Labels, case folded, that spreadsheets and programs write for a missing value."""
SEPARATORS = (";", ",", "|", "/", "+", "&")
"""Characters between several labels in one cell."""
LIST_SEPARATORS = (";", "|")
"""Those that are not used for other things: 'card, lost' and 'card, stolen' are names of one class each."""
QUOTES = " []{}()'\""
"""Characters around the labels of a list that was stored as text."""


@dataclass(frozen=True, slots=True)
class ClassChoice:
    """Declaration of an owner: classes by name, or consent to the proposed ones; `asks`: a person can answer."""

    names: Sequence[str] = ()
    is_accepted: bool = False
    asks: bool = False


def propose_classes(
    counts: Mapping[str, int], requested: Sequence[str], fewest: int, naming: str = BY_OPTION
) -> list[str]:
    """Return the requested classes, else the labels with at least `MIN_ROWS_OF_A_CLASS` records.

    `naming`: how the owner names classes, for messages.
    Raises ConfigError for a requested class without records, a name that cannot be shown, or fewer than `fewest` or
    more than `MAX_CLASSES` classes.
    """
    unknown = [label for label in requested if label not in counts]
    if unknown:
        labels = ", ".join(list(counts)[:SHOWN_LABELS])
        raise ConfigError(
            f"--class: no row has the label '{unknown[0]}'. Write one of the most frequent: {labels}"
        )
    chosen = list(requested) or frequent_labels(counts)
    if not fewest <= len(chosen) <= MAX_CLASSES:
        raise ConfigError(
            f"--label: {_problem_of(counts, len(chosen))} Name another column with --label, or the classes with "
            f"{naming}."
        )
    for name in chosen:
        try:
            check_class_name(name)
        except ValueError as error:
            raise ConfigError(
                f"--label: {error} from the rows, or name the other classes with --class LABEL"
            ) from None
    return chosen


def frequent_labels(counts: Mapping[str, int]) -> list[str]:
    """Return the labels with at least `MIN_ROWS_OF_A_CLASS` records, numbers in their order."""
    return class_order(label for label, count in counts.items() if count >= MIN_ROWS_OF_A_CLASS)


def _problem_of(counts: Mapping[str, int], number: int) -> str:
    """Return why so many labels with enough records make no task."""
    rows = sum(counts.values())
    # More labels than half the rows: the labels are texts or keys. Their number would describe the symptom.
    if counts and max(counts.values()) < MIN_ROWS_OF_A_CLASS and 2 * len(counts) > rows:
        return "almost each row has another label. Is this a column of texts or numbers of records?"
    verb = "has" if number == 1 else "have"
    labels = f"{counted(number, 'label')} {verb} at least {MIN_ROWS_OF_A_CLASS} rows"
    return f"{labels}; a task needs 2 to {MAX_CLASSES}."


def doubts_about(classes: Sequence[str], spellings: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what looks like a mistake in the names of classes: only their owner can tell."""
    doubts = [
        f"'{name}' reads like a missing value" for name in classes if name.casefold() in MISSING
    ]
    doubts += [
        f"'{first}' and '{second}' differ only in case, blanks or width"
        for first, second in combinations(classes, 2)
        if _look(first) == _look(second)
    ]
    known = {name.strip(QUOTES) for name in classes} | _repeated_parts(classes)
    has_several = False
    for name in classes:
        parts = next((parts for parts in _splits(name) if known.issuperset(parts)), [])
        if parts:
            doubts.append(f"'{name}' reads like several labels in one cell ({', '.join(parts)})")
            has_several = True
        decimals = [spelling for spelling in spellings.get(name, ()) if "." in spelling]
        if len(decimals) > 1:
            doubts.append(f"{' and '.join(decimals)} are read as one number")
    if has_several:
        doubts.append(ONE_LABEL)
    return doubts


def require_no_doubts(doubts: Sequence[str]) -> None:
    """Raise ConfigError for classes that --yes would declare although they look like a mistake."""
    if doubts:
        raise ConfigError(
            f"--class: {'; '.join(doubts)}. Correct the rows, or declare the classes that you mean with --class LABEL "
            "(repeatable)"
        )


def declare_classes(records: Survey, choice: ClassChoice) -> list[str]:
    """Return the classes that the owner declares; empty if nobody declares them.

    Raises ConfigError as `propose_classes`, for doubtful names without an answer, and if the owner declines.
    """
    if not (choice.names or choice.is_accepted or choice.asks):
        return []
    classes = propose_classes(records.classes, choice.names, 1)
    if choice.names:
        return classes
    doubts = doubts_about(classes, records.spellings)
    if choice.is_accepted:
        require_no_doubts(doubts)
        return classes
    print(
        "These classes were read from your rows. Their names become public, and a run with others is refused:"
    )
    print(f"  classes   {', '.join(classes)}")
    for doubt in doubts:
        print(f"  check     {doubt}")
    if not typer.confirm("Declare them?", default=False):
        raise ConfigError(
            "Nothing was registered or written. Write your own declarations with --class LABEL"
        )
    return classes


def _look(name: str) -> str:
    # NFKC maps full-width letters to ordinary ones, which look the same in a table.
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def _repeated_parts(names: Sequence[str]) -> set[str]:
    """Return the parts that several names with a separator have in common: none of them need occur alone."""
    parts = [set(split) for name in names for split in _splits(name, LIST_SEPARATORS)]
    counts = Counter(part for of_name in parts for part in of_name)
    return {part for part, count in counts.items() if part and count > 1}


def _splits(name: str, separators: Sequence[str] = SEPARATORS) -> list[list[str]]:
    """Return the parts of a name at each separator that it contains."""
    return [
        [cell_form(part.strip(QUOTES)) for part in name.split(separator)]
        for separator in separators
        if separator in name
    ]
