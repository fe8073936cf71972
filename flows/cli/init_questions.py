"""Ask the owner of the rows, on a terminal, for the options of `wasp init` that are not set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from connectors.interfaces.errors import ConfigError, WaspError, nearest
from connectors.interfaces.rows import RowsRef
from connectors.rows.headers import first_columns
from flows.cli import dataset
from flows.cli.budget import check_cap
from flows.cli.init_files import ITEM
from flows.cli.init_options import NONE, Options, RowsOptions, RunOptions
from flows.cli.model_choice import choose_models, model_names
from flows.config.paths import resolve_path
from flows.runtime.stores import DEFAULT_CAP

SHARE = "a part such as 0.15, or 0"
CAP = "a number such as 4"
"""Examples of answers."""
TEXT_COLUMNS = (
    "text",
    "note",
    "message",
    "body",
    "review",
    "comment",
    "content",
    "description",
    "sentence",
)
LABEL_COLUMNS = ("label", "category", "class", "intent", "topic", "rating", "sentiment", "type")


def prompt_for_options(name: str | None, options: Options) -> tuple[str, Options]:
    """Ask the owner of the rows for the options of `wasp init` that are not set; return name and options.

    Raises ConfigError without a terminal.
    """
    if not sys.stdin.isatty():
        raise ConfigError(
            "NAME, --data: one is not set. Write both, or run wasp init on a terminal, which asks"
        )
    data = options.rows.data or prompt(
        "File of your rows (CSV, JSON Lines, Parquet or Excel)", "", _check_header
    )
    if name is None:
        name = prompt(
            "Name of the dataset", Path(data).stem, lambda name: dataset.check_new(name, None)
        )
    rows = replace(options.rows, data=data)
    text = rows.text
    label = rows.label
    if not text or not label:
        text, label = choose_columns(rows)
    item = options.run.item or prompt(
        "What one text is, for prompts, such as 'message of a bank customer'", ITEM, str
    )
    rows = replace(rows, text=text, label=label, test_share=_test_share(rows))
    run = replace(options.run, item=item, models=_models(options.run))
    cap = _cap(run)
    # The default epsilon would exceed a lower cap, and then no run could start.
    run = replace(run, cap=cap, epsilon=min(run.epsilon, cap))
    return name, replace(options, rows=rows, run=run)


def prompt(question: str, default: str, check: Callable[[str], object]) -> str:
    """Return the answer of a person; repeat the question with the reason while `check` raises an error."""

    # click repeats the question for BadParameter alone.
    def checked(answer: str) -> str:
        try:
            check(answer)
        except (WaspError, ValueError) as error:
            raise typer.BadParameter(str(error)) from None
        return answer.strip()

    answer: str = typer.prompt(
        question, default=default, show_default=bool(default), value_proc=checked
    )
    return answer


def choose_columns(rows: RowsOptions) -> tuple[str, str]:
    """Return the text and label column: of the options, guessed from the header, or asked on a terminal."""
    columns = columns_of(rows)
    if not columns:
        raise ConfigError(
            "--text and --label: the columns of this source have no header. Name both options."
        )
    text = rows.text or _known(columns, TEXT_COLUMNS)
    if sys.stdin.isatty():
        print(f"columns: {', '.join(columns)}")
        text = rows.text or prompt(
            "Text column", text, lambda answer: check_column(answer, columns)
        )
    # The label is guessed without the text column, whose name may be in both lists.
    others = [column for column in columns if column != text]
    label = rows.label or _known(others, LABEL_COLUMNS)
    if sys.stdin.isatty() and not rows.label:
        label = prompt(
            f"Label column, or {NONE} for texts without classes",
            label or NONE,
            lambda answer: check_column(answer, [*others, NONE]),
        )
    available = f"{rows.data} has: {', '.join(columns)}"
    if not text:
        raise ConfigError(f"--text: name the column. {available}")
    if not label:
        raise ConfigError(
            f"--label: name the column, or write --label {NONE} for texts without classes. {available}"
        )
    return text, label


def columns_of(rows: RowsOptions) -> list[str]:
    """Return the columns of a source to choose from; empty for a database, whose columns only its rows show."""
    # Only the rows of a query show its columns, so both options are needed.
    if rows.query:
        return []
    return [*first_columns(RowsRef(rows.path))]


def check_column(answer: str, columns: Sequence[str]) -> None:
    """Raise ConfigError for an answer that is none of the columns."""
    if answer.strip() not in columns:
        raise ConfigError(
            f"'{answer}' is not one of: {', '.join(columns)}.{nearest(answer, columns, 0.5)}"
        )


def _check_header(data: str) -> None:
    if not data.strip():
        raise ConfigError("no file was named. Write its path, such as notes.csv, or press Ctrl-C")
    if not first_columns(RowsRef(resolve_path(data, str(Path.cwd())))):
        raise ConfigError(
            "this source has no header. For a database, start again with --data, --query and the columns"
        )


def _known(columns: Sequence[str], names: Sequence[str]) -> str:
    """Return the column with the first of the usual names; empty if there is none."""
    for name in names:
        for column in columns:
            if column.strip().lower() == name:
                return column
    return ""


def _test_share(rows: RowsOptions) -> float | None:
    """Return the part to hold out; None for none."""
    if rows.test_share is not None:
        return rows.test_share
    answer = prompt("Part to hold out as test rows, 0 for none", "0.15", _check_share)
    return _number(answer, SHARE) or None


def _models(run: RunOptions) -> Sequence[str]:
    """Show the models that would be chosen; return those that the owner names instead, if any."""
    models, reason = choose_models(run.models, run.endpoint)
    print(f"models: {', '.join(model_names(models))} ({reason})")
    if run.models or run.endpoint is not None:
        return run.models
    answer = prompt(
        "Enter for these, or others as CONNECTOR:MODEL, separated by spaces", "", _check_models
    )
    return answer.split()


def _cap(run: RunOptions) -> float:
    if run.cap is not None:
        return run.cap
    question = "Cap: largest total epsilon of all runs"
    return _number(prompt(question, f"{DEFAULT_CAP[0]:g}", _check_cap), CAP)


def _number(answer: str, example: str) -> float:
    """Return the number that a person typed; ConfigError, with an example, for anything else."""
    try:
        return float(answer)
    except ValueError:
        raise ConfigError(f"'{answer}' is not a number. Write {example}") from None


def _check_share(answer: str) -> None:
    share = _number(answer, SHARE)
    if share != 0 and not 0.01 <= share <= 0.5:
        raise ConfigError(f"{share:g} is not between 0.01 and 0.5. Write {SHARE}")


def _check_models(answer: str) -> None:
    if answer:
        choose_models(answer.split())


def _check_cap(answer: str) -> None:
    check_cap(_number(answer, CAP), dataset.DELTA, option="the cap")
