"""Decide for `wasp init` what a run protects and what becomes public, from the rows and their owner's answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.languages import described as name_of_language
from connectors.interfaces.rows import NO_CLASS
from connectors.interfaces.text_forms import class_order
from flows.cli import dataset
from flows.cli.class_choice import (
    BY_OPTION,
    doubts_about,
    frequent_labels,
    propose_classes,
    require_no_doubts,
)
from flows.cli.class_descriptions import Descriptions, read_descriptions, request_descriptions
from flows.cli.init_declarations import Declared, form_line
from flows.cli.init_options import NONE, Options, PublicOptions, RowsOptions
from flows.cli.init_questions import check_column, choose_columns, columns_of, prompt
from flows.config.files import check_config
from flows.config.rows import DatasetView
from flows.engine.datasets import split_view, survey_view
from tasks.writing.forms import PROSE

if TYPE_CHECKING:
    from tasks.private.rows.rows import PrivateZone
    from tasks.private.rows.survey import Survey

PERSON_NAME = re.compile(
    "patient|person|subject|user|customer|client|member|author|employee|student|owner", re.I
)
"""Names of columns that identify persons."""
BY_OPTION_OR_FILE = f"{BY_OPTION} or in a file for --descriptions"


@dataclass(frozen=True, slots=True)
class SurveyedRows:
    """The rows of an owner, and the decisions about them.

    Attributes:
        view: source and columns.
        records: description of the rows for their owner.
        classes: names of the classes; empty for texts without classes.
        left_out: number of records by label that is no class; for the owner only.
        notices: what the owner should check.
    """

    view: DatasetView
    records: Survey
    classes: list[str]
    left_out: dict[str, int]
    notices: list[str]


def survey_rows(zone: PrivateZone, options: Options) -> SurveyedRows:
    """Read the rows of an owner; decide on columns, persons and classes.

    Raises ConfigError as `wasp init`, and InputError for rows that cannot be read.
    """
    names = options.public.class_names
    view = _view(options.rows)
    records = survey_view(zone, view, names)
    person, notices = _choose_person(options.rows, view, records)
    if person != view.person:
        dataset.check_columns(view.text, view.label, person)
        view = view.model_copy(update={"person": person})
        # The second survey counts persons, and leaves out rows without one.
        records = survey_view(zone, view, names)
    if not view.label:
        return SurveyedRows(view, records, [], {}, notices)
    named = names
    if not names and options.public.descriptions is not None:
        named = _with_described(records, options.public.descriptions)
    classes = propose_classes(records.classes, named, fewest=2, naming=BY_OPTION_OR_FILE)
    left_out = {name: count for name, count in records.classes.items() if name not in classes}
    return SurveyedRows(view, records, classes, left_out, notices)


def hold_out_test_rows(
    zone: PrivateZone, rows: SurveyedRows, share: float, private: Path, test: Path
) -> SurveyedRows:
    """Write private and test rows to two files; return the private rows, whose columns have the standard names."""
    records = split_view(zone, rows.view, share, rows.classes or [NO_CLASS], (private, test))
    view = DatasetView(
        path=str(private),
        label=rows.view.label and "label",
        person=rows.view.person and "person",
    )
    return replace(rows, view=view, records=records)


def declare(options: PublicOptions, rows: SurveyedRows) -> Declared:
    """Return the declarations of the owner: of the options, or as the owner confirms.

    Form and length are not required: without an option or a confirmation a text is prose of any length.

    Raises ConfigError (without row content) if an option is missing and cannot be confirmed on a terminal.
    """
    described: Descriptions = {}
    if options.descriptions is not None:
        described = read_descriptions(options.descriptions, rows.classes)
    records = rows.records
    form = options.form or records.form
    words = options.words
    # The length goes with the proposed form: a declared one may have another.
    if words is None and form == records.form:
        words = records.words
    proposed = Declared(
        options.declared_rows or records.declared_rows,
        options.language or records.language,
        form,
        words,
        described,
    )
    flags = {
        "--class LABEL": options.classes or not rows.classes,
        "--declared-rows N": options.declared_rows,
        "--language CODE": options.language,
    }
    missing = [flag for flag, value in flags.items() if not value]
    doubts: list[str] = []
    if not options.classes:
        doubts = doubts_about(rows.classes, rows.records.spellings)
    if options.is_accepted:
        require_no_doubts(doubts)
        return proposed
    if not missing:
        return replace(proposed, form=options.form or PROSE, words=options.words)
    # A script never declares by default: a name of a class or an exact number may reveal one record.
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{', '.join(missing)}: not set. These values become public, so the owner of the rows declares them. Write "
            "the options, run wasp init on a terminal, which proposes them, or accept what it would propose with --yes"
        )
    unit = "rows" if rows.records.persons is None else "persons"
    # The number is rounded: an exact one would reveal whether one more record is there.
    print("These values were read from your rows, and become public with every run:")
    print(f"  classes   {', '.join(rows.classes) or 'none'}")
    for doubt in doubts:
        print(f"  check     {doubt}")
    print(f"  number    {proposed.number} {unit}, rounded")
    print(f"  language  {name_of_language(proposed.language)}")
    print(f"  form      {form_line(proposed.form, proposed.words)}")
    if not typer.confirm("Declare them?", default=False):
        raise ConfigError(
            f"Nothing was registered or written. Write your own declarations with {', '.join(missing)}"
        )
    if options.descriptions is None:
        return replace(proposed, descriptions=request_descriptions(rows.classes))
    return proposed


def _with_described(records: Survey, file: Path) -> list[str]:
    """Return the frequent labels and those that a file describes: its owner declares them, however rare they are."""
    described = read_descriptions(file, list(records.classes))
    return class_order({*frequent_labels(records.classes), *described})


def _view(rows: RowsOptions) -> DatasetView:
    """Return the view of the rows that the options describe; its person column may still be missing."""
    text = rows.text
    label = rows.label
    if text is None or label is None:
        text, label = choose_columns(rows)
    if label == NONE:
        label = ""
    person = _column(rows.person)
    dataset.check_columns(text, label, person)
    values = {
        "path": rows.path,
        "query": rows.query,
        "text": text,
        "label": label,
        "person": person,
    }
    return check_config(DatasetView, values, "wasp init")


def _column(answer: str | None) -> str | None:
    """Return the column that an owner named; None for "none" and for no answer."""
    if answer == NONE:
        return None
    return answer


def _choose_person(
    rows: RowsOptions, view: DatasetView, records: Survey
) -> tuple[str | None, list[str]]:
    """Return the person column, if any, and a notice about columns that may be one.

    Raises ConfigError without a terminal if a column has the name and the repeated values of a person column: to
    protect records where persons have several would be the weaker guarantee without a word.
    """
    if rows.person is not None:
        return _column(rows.person), []
    if not records.repeated:
        return None, []
    numbers = "; ".join(
        f"'{name}' has {count} values in {records.rows} rows"
        for name, count in records.repeated.items()
    )
    # Only a name decides without a question: labels and dates repeat as well.
    likely = next(filter(PERSON_NAME.search, records.repeated), None)
    if sys.stdin.isatty():
        print(f"repeated  {numbers}")
        return _column(_request_person(rows, view, [*records.repeated], likely or NONE)), []
    about = f"--person: {numbers}. If each value is a person, protect persons: --person"
    if likely is not None:
        raise ConfigError(f"{about} {likely}. Otherwise write --person {NONE}")
    return None, [f"{about} COLUMN"]


def _request_person(
    rows: RowsOptions, view: DatasetView, repeated: Sequence[str], default: str
) -> str:
    columns = columns_of(rows) or repeated
    choices = [column for column in columns if column not in (view.text, view.label)]
    return prompt(
        f"Column with one value per person, or {NONE}",
        default,
        lambda answer: check_column(answer, [*choices, NONE]),
    )
