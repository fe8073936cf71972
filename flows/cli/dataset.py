"""The commands of the owners of private datasets, `wasp dataset ...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.text_forms import label_form
from flows.cli.class_choice import ClassChoice, declare_classes
from flows.cli.common import Output, command, command_group
from flows.runtime.state_folder import current_user, open_to_others, state_folder
from flows.runtime.stores import DEFAULT_CAP, open_ledger, open_zone

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger
    from flows.config.rows import DatasetView
    from tasks.private.rows.survey import Survey

MAX_FILES = 5
"""Files of a folder that are listed."""
DELTA = 1e-5
"""Delta of the cap of a new dataset; `wasp budget cap` changes it."""

ClassNames = Annotated[
    list[str] | None,
    typer.Option("--class", help="A class, which becomes public. Repeatable. Default: a question."),
]
Accepted = Annotated[
    bool, typer.Option("--yes", help="Declare the labels with at least five rows as classes.")
]

dataset = command_group("Register private datasets, which runs then name: private: NAME.")


@command(dataset)
def add(  # noqa: PLR0913 - the options of a command
    name: str,
    path: Annotated[
        str,
        typer.Option(
            help="File, folder, database URL, or env:NAME for an address with a password."
        ),
    ],
    query: Annotated[str | None, typer.Option(help="SQL query of a database: one SELECT.")] = None,
    text: Annotated[str, typer.Option(help="Text column.")] = "text",
    label: Annotated[
        str, typer.Option(help="Label column. Empty: rows without classes.")
    ] = "label",
    person: Annotated[str | None, typer.Option(help="Column that identifies the person.")] = None,
    classes: Annotated[
        list[str] | None, typer.Option(help="For label codes: CLASS=PREFIX,PREFIX. Repeatable.")
    ] = None,
    class_: ClassNames = None,
    yes: Accepted = False,
    declared_rows: Annotated[
        int | None, typer.Option(min=1, help="Declared, rounded number of rows; public.")
    ] = None,
    epsilon_cap: Annotated[
        float | None, typer.Option(help="Maximum total epsilon of all runs. Default: 8.")
    ] = None,
    separate: Annotated[
        bool,
        typer.Option(
            "--separate",
            help="The people differ from those of the same place, person column or texts.",
        ),
    ] = False,
) -> Output:
    """Register the rows of an owner; read them once to recognise people of other datasets."""
    values = {
        "path": path,
        "query": query,
        "text": text,
        "label": label,
        "person": person,
        "classes": _classes_of(classes or []),
        "declared_rows": declared_rows,
        "separate": separate,
    }
    return add_rows(name, values, epsilon_cap, _choice(class_, yes))


def add_rows(name: str, values: Json, epsilon_cap: float | None, choice: ClassChoice) -> Output:
    """Register the rows of an owner as `wasp dataset add` does; `values`: the fields of their view."""
    from flows.config.files import check_config
    from flows.config.paths import resolve_path
    from flows.config.rows import DatasetView

    check_new(name, epsilon_cap)
    check_columns(values["text"], values["label"], values["person"])
    values = values | {"path": resolve_path(values["path"], str(Path.cwd()))}
    view = check_config(DatasetView, values, f"wasp dataset add {name}")
    view, seen = _with_classes(view, choice)
    return Output(register(name, view, epsilon_cap) | seen, _described)


@command(dataset)
def declare(name: str, class_: ClassNames = None, yes: Accepted = False) -> Output:
    """Declare the classes of a registered dataset, which runs are compared with; replaces the earlier ones."""
    from flows.engine.datasets import view_of

    ledger = open_ledger(state_folder())
    view = view_of(ledger, name)
    choice = _choice(class_, yes)
    if not view.label or view.classes:
        raise ConfigError(
            f"NAME: the records of '{name}' have no labels to declare, or codes, which `classes` names"
        )
    view, seen = _with_classes(view, choice)
    if not view.declared_classes:
        raise ConfigError(
            "--class LABEL: not set. The names of the classes become public, so the owner of the rows declares them. "
            "Write the option for each class, run this command on a terminal, which proposes them, or accept what it "
            "would propose with --yes"
        )
    ledger.set_view(name, view.to_json(), current_user())
    return Output(_description(ledger, name) | seen, _described)


def _choice(names: Sequence[str] | None, is_accepted: bool) -> ClassChoice:
    return ClassChoice(
        tuple(dict.fromkeys(map(label_form, names or ()))), is_accepted, sys.stdin.isatty()
    )


def _with_classes(view: DatasetView, choice: ClassChoice) -> tuple[DatasetView, Json]:
    """Return a view with the classes that its owner declares, and what only the owner sees of the rows."""
    from flows.engine.datasets import survey_view

    records = survey_view(open_zone(state_folder()), view, choice.names)
    if view.label and not view.classes:
        view = view.model_copy(update={"declared_classes": declare_classes(records, choice)})
    return view, seen_by_owner(records, view)


@command(dataset, "list")
def list_datasets() -> Output:
    """List the registered datasets with their budgets."""
    ledger = open_ledger(state_folder())
    return Output(
        {"datasets": [_description(ledger, name) for name in sorted(ledger.views())]}, _listed
    )


@command(dataset)
def show(name: str) -> Output:
    """Show location, columns, budget and group of a dataset, and the problems of its rows, for their owner."""
    from flows.engine.datasets import read_problems

    home = state_folder()
    file, problems = read_problems(open_zone(home), name)
    value = _description(open_ledger(home), name)
    if problems:
        value |= {"problems": problems, "problems_file": str(file)}
    return Output(value, _described)


@command(dataset)
def remove(name: str) -> Output:
    """Remove the name of a dataset for runs; its budget stays in the ledger."""
    from flows.engine.datasets import view_of

    ledger = open_ledger(state_folder())
    # Raises an error for a name that is not registered, which `set_view` would accept.
    view_of(ledger, name)
    ledger.set_view(name, None, current_user())
    return Output(
        {"name": name}, lambda value: f"{value['name']} removed; its spent budget is kept"
    )


def check_new(name: str, epsilon: float | None) -> None:
    """Raise ConfigError if a name is invalid or registered, or a cap is invalid."""
    from flows.cli.budget import check_cap
    from flows.config.rows import check_name

    if epsilon is not None:
        check_cap(epsilon, DELTA, option="--epsilon-cap")
    if check_name(name) in open_ledger(state_folder()).views():
        raise ConfigError(
            f"NAME: '{name}' is registered. Use another name, or first: wasp dataset remove {name}"
        )


def check_columns(text: str, label: str | None, person: str | None) -> None:
    """Raise ConfigError if two options name the same column."""
    options = {"--text": text, "--label": label, "--person": person}
    # The later option of a pair is named: a wrong label or person column is the usual mistake.
    for option, column in options.items():
        first = next((other for other in options if options[other] == column), option)
        if column and first != option:
            advice = ""
            if option == "--label":
                advice = f", or write {option} none"
            raise ConfigError(
                f"{option}: '{column}' is also the column of {first}. Name another column{advice}"
            )


def register(name: str, view: DatasetView, epsilon: float | None, protects: str = "record") -> Json:
    """Identify the rows of a checked view, record it with its cap, and return its description.

    `protects`: the unit of the cap. It stays records if releases of the same rows protected records.
    """
    from flows.engine.datasets import notify_owner, register_view

    home = state_folder()
    ledger = open_ledger(home)
    # The rows are read before the ledger gets an entry: unusable rows leave none.
    dataset = register_view(ledger, open_zone(home), name, view)
    status = ledger.status(dataset)
    unit = protects
    # A cap per person over releases that protected records would promise more than they did.
    if any(released.startswith("record/") for released in status.units):
        unit = "record"
    if epsilon is not None:
        ledger.set_cap(dataset, epsilon, DELTA, current_user(), "wasp dataset add", unit)
    elif unit == "person" and status.cap is not None and status.delta is not None:
        ledger.set_cap(
            dataset,
            status.cap,
            status.delta,
            current_user(),
            "wasp init: persons are protected",
            unit,
        )
    notify_owner(ledger, dataset, home)
    description = _description(ledger, name)
    old = (status.cap, status.delta)
    if epsilon is not None and status.cap not in (None, epsilon) and old != DEFAULT_CAP:
        # The ledger recognises records: they may have another name, and a cap of their own.
        description["warnings"].append(
            f"the cap of '{dataset}' was epsilon {status.cap:g} and is now {epsilon:g}, for every name of its records. "
            f"Restore it with: wasp budget cap {dataset} --epsilon {status.cap:g}"
        )
    return description


OWNERS_NUMBERS = ("rows", "left_out_rows", "noticed", "not_utf8", "cut", "files")
"""Keys of `seen_by_owner`: read from the rows without noise, for their owner only."""


def seen_by_owner(records: Survey, view: DatasetView) -> Json:
    """Return the number of rows that a run can use, and those that it leaves out, for their owner only."""
    from flows.engine.datasets import files_of_view

    return {
        "rows": records.rows,
        "left_out_rows": records.left_out,
        "noticed": records.noticed,
        "not_utf8": records.not_utf8,
        "cut": records.cut,
        "files": list(files_of_view(view)),
    }


def unregister(name: str) -> None:
    """Remove the name of a dataset, if it is registered."""
    ledger = open_ledger(state_folder())
    if name in ledger.views():
        ledger.set_view(name, None, current_user())


def cap_text(value: Json) -> str:
    """Return the cap of a dataset."""
    if value["cap"] is None:
        return "no cap"
    return f"cap epsilon {value['cap']:g}"


def seen_lines(value: Json) -> list[str]:
    """Return the lines of `seen_by_owner`; none for a dataset that is only shown."""
    lines = []
    if files := value.get("files"):
        names = ", ".join(files[:MAX_FILES])
        if len(files) > MAX_FILES:
            names += f" and {len(files) - MAX_FILES} more"
        lines.append(f"files     {counted(len(files), 'file')}: {names}")
    if left_out := value.get("left_out_rows"):
        number = sum(left_out.values())
        lines.append(f"left out  {number} of {value['rows'] + number} rows: {_counts(left_out)}")
    if noticed := value.get("noticed"):
        lines.append(f"notice    {sum(noticed.values())} rows are used, but {_counts(noticed)}")
    if value.get("not_utf8"):
        lines.append(
            f"encoding  {value['not_utf8']} is not UTF-8: such characters are read as Windows-1252 (Latin-1). "
            "If that is wrong, save the file as UTF-8"
        )
    if value.get("cut"):
        share = "less than 1 %"
        if value["cut"] >= 0.01:
            share = f"{100 * value['cut']:.0f} %"
        lines.append(
            f"long      {share} of the records are longer than the encoder reads (256 tokens, about 190 words): "
            "only their beginning counts. Split them into shorter records, write the important part first, or let "
            "the encoder read all of them, in windows: embedder: {options: {windows: true}}"
        )
    return lines


def group_lines(value: Json) -> list[str]:
    """Return the lines about other names and datasets that share the budget of a dataset."""
    lines = []
    if value["same_as"]:
        lines.append(f"same     the same records as {', '.join(value['same_as'])}: one budget")
    if value["members"]:
        line = f"group    charged together with {', '.join(value['members'])}"
        if value["reasons"]:
            line += f" ({', '.join(value['reasons'])})"
        lines.append(line)
    return lines


def _counts(reasons: dict[str, int]) -> str:
    return ", ".join(f"{reason} ({count})" for reason, count in reasons.items())


def _classes_of(options: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the label prefixes by class from options CLASS=PREFIX,PREFIX."""
    classes: dict[str, list[str]] = {}
    for option in options:
        name, equals, prefixes = option.partition("=")
        if not (name and equals and prefixes):
            raise ConfigError(
                f"--classes: '{option}' is not a class with prefixes. Write CLASS=PREFIX,PREFIX"
            )
        classes.setdefault(name, []).extend(prefixes.split(","))
    return classes or None


def _described(value: Json) -> str:
    """Return a dataset as text."""
    cap = "none"
    if value["cap"] is not None:
        cap = f"epsilon {value['cap']:g} at delta {value['delta']:g}"
    lines = [
        f"{value['name']}: {value['view']['path']}",
        f"cap      {cap}, spent {value['spent']:.4g}. Change it with: wasp budget cap {value['dataset']} --epsilon E",
        f"in runs  private: {value['name']}",
    ]
    if value["classes"]:
        lines.append(
            f"classes  {', '.join(value['classes'])}: public, compared with the task of each run"
        )
    elif value["view"]["label"]:
        # None: a dataset of an earlier version, whose runs compare no classes.
        state = "not declared"
        if value["classes"] is not None:
            state = "not declared, so no run starts"
        lines.append(f"classes  {state}. Declare them with: wasp dataset declare {value['name']}")
    lines += [*seen_lines(value), *group_lines(value)]
    if problems := value.get("problems"):
        lines.append(
            f"problems {_counts(problems)}, when the rows were last read. Details: {value['problems_file']}"
        )
    lines += [f"warning  {warning}" for warning in value["warnings"]]
    return "\n".join(lines)


def _listed(value: Json) -> str:
    """Return all datasets as text."""
    return "\n\n".join(map(_described, value["datasets"])) or "no dataset is registered"


def _description(ledger: PrivacyLedger, name: str) -> Json:
    from flows.engine.datasets import view_of

    view = view_of(ledger, name)
    status = ledger.status(ledger.find(name))
    registered = {
        other for other, (dataset, _) in ledger.views().items() if dataset == status.dataset
    }
    path = Path(view.path).expanduser()
    warnings = []
    if open_to_others(path):
        warnings.append(f"every user of this machine can read {path}. Run: chmod go-rwx {path}")
    return {
        "name": name,
        "dataset": status.dataset,
        "view": view.to_json(),
        "classes": view.public_classes,
        "cap": status.cap,
        "delta": status.delta,
        "spent": status.spent,
        "left": status.left,
        "same_as": sorted({*registered, status.dataset} - {name}),
        "group": status.group,
        "members": list(status.members),
        "reasons": list(status.reasons),
        "warnings": warnings,
    }
