"""Implement `wasp init`: register the rows of an owner and write a configuration and a task file for them."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError, WaspError, nearest
from connectors.interfaces.json_values import Json
from connectors.interfaces.rows import NO_CLASS, RowsRef
from connectors.interfaces.text_forms import label_form
from connectors.rows.headers import first_columns
from flows.cli import dataset
from flows.cli.budget import check_cap
from flows.cli.class_choice import (
    MIN_ROWS_OF_A_CLASS,
    doubts_about,
    propose_classes,
    require_no_doubts,
)
from flows.cli.common import Output
from flows.cli.languages import check_language
from flows.cli.model_choice import choose_models
from flows.config.extends import FLOW_KEY
from flows.config.files import check_config
from flows.config.form import with_rare
from flows.config.paths import resolve_path
from flows.config.rows import DatasetView
from flows.config.task_files import TaskFile
from flows.engine.datasets import split_view, stored_rows, survey_view
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import DEFAULT_CAP, open_zone

if TYPE_CHECKING:
    from tasks.private.rows.rows import PrivateZone
    from tasks.private.rows.survey import Survey

FILES = {"config": ".yaml", "task": "_task.yaml", "test": "_test.parquet"}
"""Files in the working folder, by the ending of their name."""
TEXTS_PER_CLASS, MAX_TEXTS = 100, 2000
ITEM = "text"
SHARE, CAP = "a part such as 0.15, or 0", "a number such as 4"
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
HEADER = """# {title}
# Check: wasp plan {name}    Run: wasp run {name}    Share: wasp export latest FOLDER
# yaml-language-server: $schema={schema}
"""


NONE = "none"
"""Value of --person: every record is of another person; of --label: the texts have no classes."""
PERSON_NAME = re.compile(
    "patient|person|subject|user|customer|client|member|author|employee|student|owner", re.I
)
"""Names of columns that identify persons."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `wasp init`. Those that are None or empty are guessed, chosen, or requested on a terminal."""

    data: str | None
    query: str | None
    text: str | None
    label: str | None
    person: str | None
    test_share: float | None
    classes: Sequence[str]
    item: str | None
    models: Sequence[str]
    endpoint: str | None
    declared_rows: int | None
    language: str | None
    is_accepted: bool
    epsilon: float
    cap: float | None

    @property
    def class_names(self) -> list[str]:
        """Different names of --class, without outer blanks."""
        return list(dict.fromkeys(map(label_form, self.classes)))


def init(name: str, options: Options) -> Output:
    """Register the dataset NAME and write NAME.yaml and NAME_task.yaml in the working folder.

    Nothing is registered or written if one of the files exists or a check fails. Classes, number of rows and language
    become public: they are those of the options, or of a proposal that the owner confirms. The result is formatted
    before anything counts as done, so that a mistake there leaves nothing behind either.

    Raises:
        ConfigError: a file or the dataset exists, an option is invalid, no row can be used, or fewer than two classes
            have enough rows.
    """
    dataset.check_new(name, options.cap)
    files = _new_files(name)
    _check_budget(options)
    check_language(options.language)
    _check_writable(Path.cwd())
    models, reason = choose_models(options.models, options.endpoint)
    home = state_folder()
    zone = open_zone(home)
    view, records, notice = _survey(zone, options)
    classes = propose_classes(records.classes, options.class_names, fewest=2) if view.label else []
    left_out = (
        {label: count for label, count in records.classes.items() if label not in classes}
        if classes
        else {}
    )
    private = stored_rows(home, name)
    written = [*files.values(), *([private] if options.test_share is not None else [])]
    person = view.person
    protects = "person" if person else "record"
    with _undone_on_failure(name, written):
        if options.test_share is not None:
            records = split_view(
                zone, view, options.test_share, classes or [NO_CLASS], (private, files["test"])
            )
            view = DatasetView(
                path=str(private), label=view.label and "label", person=person and "person"
            )
        declared, language = _declarations(options, classes, records)
        view = view.model_copy(
            update={"declared_rows": declared, "declared_classes": classes or None}
        )
        task_values = _task_values(name, options, classes, language)
        values = _run_values(files, name, options, models, classes)
        if protects == "person":
            values["privacy"]["protects"] = protects
        _check(values, files, task_values)
        _write_files(name, files, values, task_values)
        registered = dataset.register(name, view, options.cap, protects)
        value = {
            "name": name,
            "config": str(files["config"]),
            "task": str(files["task"]),
            "test": str(files["test"]) if options.test_share is not None else None,
            "classes": classes,
            "left_out": left_out,
            "person": person,
            "persons": records.persons,
            "declared_rows": view.declared_rows,
            "language": language,
            "models": [_called(model) for model in models],
            "models_because": reason,
            "cap": registered["cap"],
            "same_as": registered["same_as"],
            "members": registered["members"],
            "reasons": registered["reasons"],
            "warnings": [*notice, *registered["warnings"]],
        } | dataset.seen_by_owner(records, view)
        text = format_result(value)
    return Output(public_part(value), lambda _: text)


def _new_files(name: str) -> dict[str, Path]:
    """Return the files to write by their kind; ConfigError if one exists."""
    files = {kind: Path(f"{name}{ending}") for kind, ending in FILES.items()}
    for file in files.values():
        if file.exists():
            raise ConfigError(f"{file}: this file exists. Choose another NAME, or remove it first.")
    return files


def _write_files(name: str, files: Mapping[str, Path], values: Json, task_values: Json) -> None:
    """Write configuration and task file."""
    config_schema, task_schema = write_schemas(state_folder())
    has_classes = "labels" in task_values
    better = (
        "A description and typical words of each class improve"
        if has_classes
        else "An exact item improves"
    )
    _write(files["task"], f"Task of {name}. {better} the texts.", name, task_schema, task_values)
    _write(files["config"], f"WASP on the registered dataset {name}", name, config_schema, values)


def _survey(zone: PrivateZone, options: Options) -> tuple[DatasetView, Survey, list[str]]:
    """Return the view, what its owner sees of the records, and notices; a proposed person column is read, too."""
    view = _view(options)
    records = survey_view(zone, view, options.class_names)
    person, notice = _person(options, view, records)
    if person != view.person:
        dataset.check_columns(view.text, view.label, person)
        view = view.model_copy(update={"person": person})
        records = survey_view(zone, view, options.class_names)
    return view, records, notice


def prompt_for_options(name: str | None, options: Options) -> tuple[str, Options]:
    """Ask the owner of the rows for the options of `wasp init` that are not set; return name and options.

    Raises ConfigError without a terminal.
    """
    if not sys.stdin.isatty():
        raise ConfigError(
            "NAME, --data: one is not set. Write both, or run wasp init on a terminal, which asks"
        )
    data = options.data or _prompt(
        "File of your rows (CSV, JSON Lines or Parquet)", "", _path_with_header
    )
    options = replace(options, data=data)
    if name is None:
        name = _prompt(
            "Name of the dataset", Path(data).stem, lambda name: dataset.check_new(name, None)
        )
    text, label = (
        (options.text, options.label)
        if options.text and options.label
        else _columns(options, _path(data))
    )
    item = options.item or _prompt(
        "What one text is, for prompts, such as 'message of a bank customer'", ITEM, str
    )
    share = options.test_share
    if share is None:
        answer = _prompt("Part to hold out as test rows, 0 for none", "0.15", _check_share)
        share = _number(answer, SHARE) or None
    models, reason = choose_models(options.models, options.endpoint)
    print(f"models: {', '.join(_called(model) for model in models)} ({reason})")
    requested = options.models
    if not requested and options.endpoint is None:
        others = "Enter for these, or others as CONNECTOR:MODEL, separated by spaces"
        requested = _prompt(
            others, "", lambda answer: choose_models(answer.split()) if answer else None
        ).split()
    cap = options.cap
    if cap is None:
        cap = _number(
            _prompt("Cap: largest total epsilon of all runs", f"{DEFAULT_CAP[0]:g}", _check_cap),
            CAP,
        )
    rows = replace(options, text=text, label=label, item=item, test_share=share)
    return name, replace(rows, models=requested, cap=cap, epsilon=min(options.epsilon, cap))


def _prompt(question: str, default: str, check: Callable[[str], object]) -> str:
    """Return the answer of a person; repeat the question with the reason while `check` raises an error."""

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


def _path(data: str) -> str:
    return resolve_path(data, str(Path.cwd()))


def _path_with_header(data: str) -> None:
    if not data or not first_columns(RowsRef(_path(data))):
        raise ConfigError(
            "this source has no header. For a database, start again with --data, --query and the columns"
        )


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


def _check_cap(answer: str) -> None:
    check_cap(_number(answer, CAP), dataset.DELTA, option="the cap")


def _called(model: Mapping[str, Any]) -> str:
    return f"{model['connector']}:{model['model']}"


def _declarations(options: Options, classes: Sequence[str], records: Survey) -> tuple[int, str]:
    """Return the public number of rows or persons and the language: of the options, or as the owner confirms.

    Raises ConfigError (without row content) if an option is missing and cannot be confirmed on a terminal.
    """
    declared = options.declared_rows or records.declared_rows
    language = options.language or records.language
    flags = {
        "--class LABEL": options.classes or not classes,
        "--declared-rows N": options.declared_rows,
    }
    flags |= {"--language CODE": options.language}
    missing = [flag for flag, value in flags.items() if not value]
    doubts = [] if options.classes else doubts_about(classes, records.spellings)
    if not missing or options.is_accepted:
        require_no_doubts(doubts)
        return declared, language
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{', '.join(missing)}: not set. These values become public, so the owner of the rows declares them. Write "
            "the options, run wasp init on a terminal, which proposes them, or accept what it would propose with --yes"
        )
    print("These values were read from your rows, and become public with every run:")
    print(f"  classes   {', '.join(classes) or 'none'}")
    for doubt in doubts:
        print(f"  check     {doubt}")
    print(f"  number    {declared} {'rows' if records.persons is None else 'persons'}, rounded")
    print(f"  language  {language}")
    if not typer.confirm("Declare them?", default=False):
        raise ConfigError(
            f"Nothing was registered or written. Write your own declarations with {', '.join(missing)}"
        )
    return declared, language


def _task_values(name: str, options: Options, classes: Sequence[str], language: str) -> Json:
    values = {"name": name.replace("-", "_"), "item": options.item or ITEM, "language": language}
    labels = [{"name": label, "description": ""} for label in classes]
    return ({"labels": labels} if labels else {}) | values


def _run_values(
    files: Mapping[str, Path],
    name: str,
    options: Options,
    models: list[Json],
    classes: Sequence[str],
) -> Json:
    """Return the configuration of a run on the dataset NAME that protects records and measures held-out rows alone."""
    test = {"path": str(files["test"])} | ({} if classes else {"label": ""})
    values = {
        "flow": "wasp",
        "task": str(files["task"]),
        "private": name,
        "plms": models,
        "embedder": {"connector": "sentence_transformers", "model": "embedded"},
        "privacy": {"epsilon": options.epsilon, "delta": 1e-5},
        "method": {"samples": min(MAX_TEXTS, TEXTS_PER_CLASS * (len(classes) or 10))},
        "student": {"kind": "linear"},
        "evaluation": {"fid_reference": "none"},
    }
    return values | ({"test": test} if options.test_share is not None else {})


def _check_budget(options: Options) -> None:
    """Raise ConfigError for an epsilon that is invalid, or larger than the cap of the dataset."""
    cap = DEFAULT_CAP[0] if options.cap is None else options.cap
    if not 0 < options.epsilon < math.inf:
        raise ConfigError(
            f"--epsilon: {options.epsilon:g} is not a positive number. Write a number such as 4"
        )
    if options.epsilon > cap:
        raise ConfigError(
            f"--epsilon: {options.epsilon:g} exceeds the cap {cap:g} of the dataset, so no run could start. Lower it, "
            "or raise --epsilon-cap"
        )


def _check_writable(folder: Path) -> None:
    """Raise ConfigError before any row is read if the files cannot be written."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{folder}: the working folder is not writable, and init writes files. Use another folder"
        )


@contextmanager
def _undone_on_failure(name: str, files: Sequence[Path]) -> Iterator[None]:
    """Remove files and the registration of a name if the block fails."""
    try:
        yield
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        dataset.unregister(name)
        raise


def _person(options: Options, view: DatasetView, records: Survey) -> tuple[str | None, list[str]]:
    """Return the person column, if any, and a notice about columns that may be one.

    Raises ConfigError without a terminal if a column has the name and the repeated values of a person column.
    """
    if options.person is not None:
        return (None if options.person == NONE else options.person), []
    numbers = [
        f"'{name}' has {count} values in {records.rows} rows"
        for name, count in records.repeated.items()
    ]
    likely = next((name for name in records.repeated if PERSON_NAME.search(name)), None)
    if not numbers:
        return None, []
    if sys.stdin.isatty():
        print(f"repeated  {'; '.join(numbers)}")
        columns = _columns_of(options, view.path) or [*records.repeated]
        others = [column for column in columns if column not in (view.text, view.label)]
        question = f"Column with one value per person, or {NONE}"
        answer = _prompt(
            question, likely or NONE, lambda answer: _check_column(answer, [*others, NONE])
        )
        return (None if answer == NONE else answer), []
    about = f"--person: {'; '.join(numbers)}. If each value is a person, protect persons: --person"
    if likely is not None:
        raise ConfigError(f"{about} {likely}. Otherwise write --person {NONE}")
    return None, [f"{about} COLUMN"]


def public_part(value: Json) -> Json:
    """Return the result of `wasp init` without what only the owner may see, for scripts."""
    closed = {"left_out", "persons", *dataset.OWNERS_NUMBERS}
    return {name: part for name, part in value.items() if name not in closed}


def format_result(value: Json) -> str:
    """Return the result of `wasp init` as text."""
    rows = f"{value['rows']} rows" + (f" of {value['persons']} persons" if value["person"] else "")
    unit = f"each person (column '{value['person']}')" if value["person"] else "each record"
    lines = [
        f"dataset   {value['name']}: {rows}, declared as {value['declared_rows']}; {dataset.cap_text(value)}",
        f"protects  {unit}",
        *dataset.group_lines(value),
        *dataset.seen_lines(value),
        f"classes   {', '.join(value['classes']) or 'none: the run measures the next words of test rows'}",
    ]
    if value["left_out"]:
        rare = ", ".join(f"{label} ({count})" for label, count in value["left_out"].items())
        lines.append(
            f"no class  labels with fewer than {MIN_ROWS_OF_A_CLASS} rows: {rare}. Include one with --class LABEL"
        )
    lines += [
        f"language  {value['language']}",
        f"models    {', '.join(value['models'])} ({value['models_because']})",
        f"written   {', '.join(value[file] for file in FILES if value[file])}",
        f"public    class names, the declared number of {'persons' if value['person'] else 'rows'}, configuration and "
        "task; check them before you run",
        *(
            ["test      rows of people: measured without noise, never shared"]
            if value["test"]
            else []
        ),
        *(f"warning   {warning}" for warning in value["warnings"]),
        "",
        f"next      describe one text (item){' and the classes' if value['classes'] else ''} in {value['task']}: it "
        "decides how good the texts are",
        f"          wasp plan {value['name']}",
        f"          wasp run {value['name']}",
    ]
    return "\n".join(lines)


def write_schemas(home: Path) -> tuple[Path, Path]:
    """Write the JSON schemas of configurations of wasp and of task files for editors; return their paths."""
    from flows.catalog import find_flow

    folder = home / "schema"
    paths = (folder / "wasp.json", folder / "task.json")
    for path, model in zip(paths, (find_flow("wasp").config, TaskFile), strict=True):
        write_text_whole(path, json.dumps(editor_schema(model), indent=1))
    return paths


def editor_schema(model: Any) -> Json:
    """Return the JSON schema of a configuration file, which may also name its flow and a base."""
    schema = with_rare(model.model_json_schema())
    schema.setdefault("properties", {})["flow"] = {
        "type": "string",
        "description": "Flow of `wasp run NAME`.",
    }
    schema["properties"]["extends"] = {
        "type": "string",
        "description": "Configuration with all values not written here.",
    }
    required = {"required": schema.pop("required", [])}
    schema |= {"if": {"not": {"required": ["extends"]}}, "then": required}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _view(options: Options) -> DatasetView:
    path = _path(options.data or "")
    text = options.text
    label = options.label
    if text is None or label is None:
        text, label = _columns(options, path)
    person = None if options.person == NONE else options.person
    label = "" if label == NONE else label
    dataset.check_columns(text, label, person)
    values = {"path": path, "query": options.query, "text": text, "label": label, "person": person}
    return check_config(DatasetView, values, "wasp init")


def _columns(options: Options, path: str) -> tuple[str, str]:
    """Return the text and label column: of the options, guessed from the header, or asked on a terminal."""
    columns = _columns_of(options, path)
    if not columns:
        raise ConfigError(
            "--text and --label: the columns of this source have no header. Name both options."
        )
    text = options.text or _known(columns, TEXT_COLUMNS)
    if sys.stdin.isatty():
        print(f"columns: {', '.join(columns)}")
        text = options.text or _prompt(
            "Text column", text, lambda answer: _check_column(answer, columns)
        )
    others = [column for column in columns if column != text]
    label = options.label or _known(others, LABEL_COLUMNS)
    if sys.stdin.isatty() and not options.label:
        question = f"Label column, or {NONE} for texts without classes"
        label = _prompt(
            question, label or NONE, lambda answer: _check_column(answer, [*others, NONE])
        )
    if not text or not label:
        missing = "--text" if not text else "--label"
        without = f", or write --label {NONE} for texts without classes" if text else ""
        raise ConfigError(
            f"{missing}: name the column{without}. {options.data} has: {', '.join(columns)}"
        )
    return text, label


def _columns_of(options: Options, path: str) -> list[str]:
    """Return the columns of a source to choose from; empty for a database, whose columns only its rows show."""
    return [] if options.query else [*first_columns(RowsRef(path))]


def _check_column(answer: str, columns: Sequence[str]) -> None:
    if answer.strip() not in columns:
        raise ConfigError(
            f"'{answer}' is not one of: {', '.join(columns)}.{nearest(answer, columns, 0.5)}"
        )


def _known(columns: Sequence[str], names: Sequence[str]) -> str:
    """Return the column with the first of the usual names; empty if there is none."""
    return next(
        (column for name in names for column in columns if column.strip().lower() == name), ""
    )


def _write(file: Path, title: str, name: str, schema: Path, values: Json) -> None:
    head = HEADER.format(title=title, name=name, schema=schema.as_uri())
    body = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
    write_text_whole(file, head + body)


def _check(values: Json, files: dict[str, Path], task_values: Json) -> None:
    """Check configuration, task and models before they are written, as a run does."""
    from flows.engine.checks import require_models
    from flows.methods.wasp.config import WaspConfig

    check_config(TaskFile, task_values, str(files["task"]))
    config = {name: value for name, value in values.items() if name != FLOW_KEY}
    require_models(check_config(WaspConfig, config, str(files["config"])))
