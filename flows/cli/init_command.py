"""Implement `wasp init`: register the rows of an owner and write a configuration and a task file for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import RowsRef
from connectors.rows.headers import read_header
from flows.cli import dataset_commands
from flows.cli.model_choice import choose_models
from flows.config.datasets import DatasetView, check_name
from flows.config.files import check_config, load_config
from flows.config.form import with_rare
from flows.config.paths import place
from flows.config.task_files import TaskFile, load_task
from flows.engine.datasets import survey_view
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_zone

FEWEST_OF_A_CLASS = 5
"""Records of a label that makes it a class without --class: a rarer one may be a typing error that shows one record."""
MOST_CLASSES = 100
TEXTS_PER_CLASS, MOST_TEXTS = 100, 2000
TEXT_COLUMNS = ("text", "note", "message", "body", "review", "comment", "content", "description", "sentence")
LABEL_COLUMNS = ("label", "category", "class", "intent", "topic", "rating", "sentiment", "type")
HEADER = """# {title}
# Check: wasp plan {name}    Run: wasp run {name}    Share: wasp export latest FOLDER
# yaml-language-server: $schema={schema}
"""


@dataclass(frozen=True, slots=True)
class Source:
    """Options of `wasp init` that locate the rows. `text` and `label` may be None: they are guessed or asked for."""

    data: str
    query: str | None
    text: str | None
    label: str | None
    person: str | None


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of `wasp init` that describe the run; empty ones are chosen."""

    classes: Sequence[str]
    item: str
    models: Sequence[str]
    declared_rows: int | None
    epsilon: float
    cap: float | None


def init(name: str, source: Source, choices: Choices) -> dict[str, Any]:
    """Register the dataset NAME and write NAME.yaml and NAME_task.yaml in the working folder.

    Nothing is registered or written if one of the files exists or a check fails. The owner, who runs the command, sees
    the classes and the number of rows; the files contain the classes and a rounded number.

    Raises:
        ConfigError: a file or the dataset exists, a column is unknown, or fewer than two classes have enough rows.
    """
    config, task = Path(f"{check_name(name)}.yaml"), Path(f"{name}_task.yaml")
    for file in (config, task):
        if file.exists():
            raise ConfigError(f"{file}: this file exists. Choose another NAME, or remove it first.")
    models, reason = choose_models(choices.models)
    home = state_folder()
    view = _view(source)
    owner_view = survey_view(open_zone(home), view)
    classes, left_out = _classes(owner_view.classes, choices.classes)
    rows = choices.declared_rows or owner_view.declared_rows
    view = view.model_copy(update={"declared_rows": rows})
    task_values = {
        "name": name.replace("-", "_"),
        "item": choices.item,
        "language": owner_view.language,
        "labels": [{"name": label, "description": ""} for label in classes],
    }
    check_config(TaskFile, task_values, str(task))

    registered = dataset_commands.add(name, view.model_dump(exclude={"rows", "seed"}), choices.cap, 1e-5)
    schemas = write_schemas(home)
    title = f"Task of {name}. A description and typical words of each class improve the texts."
    _write(task, title, name, schemas[1], task_values)
    values = _configuration(name, task, models, len(classes), choices.epsilon)
    _write(config, f"WASP on the registered dataset {name}", name, schemas[0], values)
    _check(config, task)
    return {
        "name": name,
        "config": str(config),
        "task": str(task),
        "classes": classes,
        "left_out": left_out,
        "rows": owner_view.rows,
        "declared_rows": rows,
        "language": owner_view.language,
        "models": [f"{model['connector']}:{model['model']}" for model in models],
        "models_because": reason,
        "cap": registered["cap"],
        "warnings": registered["warnings"],
    }


def _configuration(name: str, task: Path, models: list[dict[str, Any]], classes: int, epsilon: float) -> dict[str, Any]:
    return {
        "flow": "wasp",
        "task": str(task),
        "private": name,
        "plms": models,
        "embedder": {"connector": "sentence_transformers", "model": "embedded"},
        "privacy": {"epsilon": epsilon, "delta": 1e-5},
        "method": {"samples": min(MOST_TEXTS, TEXTS_PER_CLASS * classes)},
        "student": {"kind": "linear"},
        "evaluation": {"fid_reference": "none"},
    }


def described(value: dict[str, Any]) -> str:
    """Return the result of `wasp init` as text."""
    rows = f"{value['rows']} rows, declared as {value['declared_rows']}"
    lines = [
        f"dataset   {value['name']}: {rows}; cap epsilon {value['cap']:g}",
        f"classes   {', '.join(value['classes'])}",
    ]
    if value["left_out"]:
        rare = ", ".join(f"{label} ({count})" for label, count in value["left_out"].items())
        lines.append(
            f"left out  labels with fewer than {FEWEST_OF_A_CLASS} rows: {rare}. Include one with --class LABEL"
        )
    lines += [
        f"language  {value['language']}",
        f"models    {', '.join(value['models'])} ({value['models_because']})",
        f"written   {value['config']}, {value['task']}",
        "public    class names, the declared number of rows and both files; check them before you run",
        *(f"warning   {warning}" for warning in value["warnings"]),
        "",
        f"next      describe the classes in {value['task']}",
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


def editor_schema(model: Any) -> dict[str, Any]:
    """Return the JSON schema of a configuration file, which may also name its flow."""
    schema = with_rare(model.model_json_schema())
    schema.setdefault("properties", {})["flow"] = {"type": "string", "description": "Flow of `wasp run NAME`."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _view(source: Source) -> DatasetView:
    path = place(source.data, str(Path.cwd()))
    text, label = source.text, source.label
    if text is None or label is None:
        text, label = _columns(source, path)
    values = {"path": path, "query": source.query, "text": text, "label": label, "person": source.person}
    return check_config(DatasetView, values, "wasp init")


def _columns(source: Source, path: str) -> tuple[str, str]:
    """Return the text and label column: of the options, guessed from the header, or asked on a terminal."""
    header = None if source.query else read_header(RowsRef(path))
    if header is None:
        raise ConfigError("--text and --label: the columns of this source have no header. Name both options.")
    text, label = (
        source.text or _known(header.columns, TEXT_COLUMNS),
        source.label or _known(header.columns, LABEL_COLUMNS),
    )
    if sys.stdin.isatty():
        import typer

        print(f"columns: {', '.join(header.columns)}")
        text = source.text or typer.prompt("Text column", default=text or None)
        label = source.label or typer.prompt("Label column", default=label or None)
    if not text or not label:
        missing = "--text" if not text else "--label"
        raise ConfigError(f"{missing}: name the column. {source.data} has: {', '.join(header.columns)}")
    return text, label


def _known(columns: Sequence[str], names: Sequence[str]) -> str:
    """Return the column with the first of the usual names; empty if there is none."""
    return next((column for name in names for column in columns if column.strip().lower() == name), "")


def _classes(counts: dict[str, int], requested: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Return the classes, and the labels that are left out with their counts."""
    unknown = [label for label in requested if label not in counts]
    if unknown:
        raise ConfigError(f"--class: no row has the label '{unknown[0]}'. Labels are compared as they are written.")
    chosen = list(requested) or sorted(label for label, count in counts.items() if count >= FEWEST_OF_A_CLASS)
    if not 2 <= len(chosen) <= MOST_CLASSES:
        raise ConfigError(
            f"--label: {len(chosen)} labels have at least {FEWEST_OF_A_CLASS} rows; a task needs 2 to {MOST_CLASSES}. "
            "Name another column with --label, or the classes with --class LABEL (repeatable)."
        )
    return chosen, {label: count for label, count in counts.items() if label not in chosen}


def _write(file: Path, title: str, name: str, schema: Path, values: dict[str, Any]) -> None:
    head = HEADER.format(title=title, name=name, schema=schema.as_uri())
    body = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
    write_text_whole(file, head + body)


def _check(config: Path, task: Path) -> None:
    """Read both files as a run does."""
    from flows.catalog import find_flow

    load_task(task)
    load_config(find_flow("wasp").config, config)
