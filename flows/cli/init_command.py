"""Implement `wasp init`: register the rows of an owner and write a configuration and a task file for them.

Questions are in `init_questions`, decisions about the rows in `init_decisions`, files in `init_files`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from connectors.interfaces.errors import ConfigError, nearest
from connectors.interfaces.json_values import Json
from connectors.interfaces.languages import NAMES, described
from flows.cli import dataset
from flows.cli.class_choice import MIN_ROWS_OF_A_CLASS
from flows.cli.common import Output
from flows.cli.init_decisions import SurveyedRows, declare, hold_out_test_rows, survey_rows
from flows.cli.init_declarations import form_line, form_notice
from flows.cli.init_files import NewConfig, NewFiles, embedder_for
from flows.cli.init_obstacles import next_lines, obstacles_of_models
from flows.cli.init_options import Options, RunOptions
from flows.cli.model_choice import choose_models, model_names
from flows.engine.datasets import stored_rows
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import DEFAULT_CAP, open_zone
from tasks.writing.forms import FORMS


def init(name: str, options: Options) -> Output:
    """Register the dataset NAME and write NAME.yaml and NAME_task.yaml in the working folder.

    Nothing is registered or written if one of the files exists or a check fails. Classes, number of rows and language
    become public: they are those of the options, or of a proposal that the owner confirms. The result is formatted
    before anything counts as done, so that a mistake there leaves nothing behind either.

    Raises:
        ConfigError: a file or the dataset exists, an option is invalid, no row can be used, or fewer than two classes
            have enough rows.
    """
    # All checks that need no row come first: a mistake in an option is found at once.
    dataset.check_new(name, options.run.cap)
    files = NewFiles.of(name)
    _check_budget(options.run)
    _check_language(options.public.language)
    _check_form(options.public.form)
    _check_writable(Path.cwd())
    models, reason = choose_models(options.run.models, options.run.endpoint)
    home = state_folder()
    zone = open_zone(home)
    rows = survey_rows(zone, options)
    person = rows.view.person
    protects = "person" if person else "record"
    share = options.rows.test_share
    private = stored_rows(home, name)
    written = [*files.all()]
    if share is not None:
        written.append(private)
    with _undone_on_failure(name, written):
        if share is not None:
            rows = hold_out_test_rows(zone, rows, share, private, files.test)
        declared = declare(options.public, rows)
        config = NewConfig(
            name, files, options.run, models, rows.classes, declared, protects, share is not None
        )
        # The run's own checks: a file that init wrote must not be refused by `wasp run`.
        warnings = config.check()
        config.write()
        view = rows.view.model_copy(
            update={"declared_rows": declared.number, "declared_classes": rows.classes or None}
        )
        registered = dataset.register(name, view, options.run.cap, protects)
        value = _described(config, rows, registered) | {
            "person": person,
            "declared_rows": declared.number,
            "models_because": reason,
            "form_notice": form_notice(options.public, declared, rows.records),
        }
        value["warnings"] += warnings
        text = format_result(value)
    return Output(public_part(value), lambda _: text)


def _check_budget(run: RunOptions) -> None:
    """Raise ConfigError for an epsilon that is invalid, or larger than the cap of the dataset."""
    cap = DEFAULT_CAP[0] if run.cap is None else run.cap
    if not 0 < run.epsilon < math.inf:
        raise ConfigError(
            f"--epsilon: {run.epsilon:g} is not a positive number. Write a number such as 4"
        )
    if run.epsilon > cap:
        raise ConfigError(
            f"--epsilon: {run.epsilon:g} exceeds the cap {cap:g} of the dataset, so no run could start. Lower it, "
            "or raise --epsilon-cap"
        )


def _check_language(code: str | None) -> None:
    """Raise ConfigError for a code that is no language."""
    if code is not None and code not in NAMES:
        raise ConfigError(
            f"--language: '{code}' is no language code of ISO 639-1. Write its two letters, such as en or de"
        )


def _check_form(form: str | None) -> None:
    """Raise ConfigError for a form that does not exist."""
    if form is not None and form not in FORMS:
        raise ConfigError(
            f"--form: '{form}' is none of {', '.join(FORMS)}.{nearest(form, FORMS)} Write one of them"
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
    # Ctrl-C at a question leaves nothing behind either, therefore not Exception.
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        dataset.unregister(name)
        raise


def _described(config: NewConfig, rows: SurveyedRows, registered: Json) -> Json:
    """Return files, classes, models and the registration of a new dataset."""
    test = str(config.files.test) if config.has_test else None
    records = rows.records
    # Only `embedded` reads the beginning of a text alone.
    if embedder_for(config.declared.language)["connector"] != "sentence_transformers":
        records = replace(records, cut=0.0)
    return {
        "name": config.name,
        "config": str(config.files.config),
        "task": str(config.files.task),
        "test": test,
        "classes": rows.classes,
        "left_out": rows.left_out,
        "persons": rows.records.persons,
        "language": config.declared.language,
        "form": config.declared.form,
        "words": config.declared.words,
        "models": model_names(config.models),
        "cap": registered["cap"],
        "same_as": registered["same_as"],
        "members": registered["members"],
        "reasons": registered["reasons"],
        "warnings": [*rows.notices, *registered["warnings"]],
        "obstacles": obstacles_of_models(
            str(config.files.config), config.declared.language, config.models_of_another_language()
        ),
        **dataset.seen_by_owner(records, rows.view),
    }


def public_part(value: Json) -> Json:
    """Return the result of `wasp init` without what only the owner may see, for scripts."""
    # Exact numbers of rows have no noise, and a script may log its output.
    closed = {"left_out", "persons", "form_notice", *dataset.OWNERS_NUMBERS}
    return {name: part for name, part in value.items() if name not in closed}


def format_result(value: Json) -> str:
    """Return the result of `wasp init` as text."""
    rows = f"{value['rows']} rows"
    protected = "each record"
    unit = "rows"
    if value["person"]:
        rows = f"{rows} of {value['persons']} persons"
        protected = f"each person (column '{value['person']}')"
        unit = "persons"
    classes = ", ".join(value["classes"])
    lines = [
        f"dataset   {value['name']}: {rows}, declared as {value['declared_rows']}; {dataset.cap_text(value)}",
        f"protects  {protected}",
        *dataset.group_lines(value),
        *dataset.seen_lines(value),
        f"classes   {classes or 'none: the run measures the next words of test rows'}",
    ]
    if value["left_out"]:
        rare = ", ".join(f"{label} ({count})" for label, count in value["left_out"].items())
        lines.append(
            f"no class  labels with fewer than {MIN_ROWS_OF_A_CLASS} rows: {rare}. Include one with --class LABEL"
        )
    files = [value[kind] for kind in ("config", "task", "test") if value[kind]]
    lines += [
        f"language  {described(value['language'])}",
        f"form      {form_line(value['form'], value['words'])}",
        f"models    {', '.join(value['models'])} ({value['models_because']})",
        f"written   {', '.join(files)}",
        f"public    class names, the declared number of {unit}, configuration and "
        "task; check them before you run",
    ]
    if value["test"]:
        lines.append("test      rows of people: measured without noise, never shared")
    lines += [f"warning   {warning}" for warning in [*value["form_notice"], *value["warnings"]]]
    subject = "one text (item) and the classes" if classes else "one text (item)"
    lines += [
        "",
        f"next      describe {subject} in {value['task']}: it decides how good the texts are",
        f"          wasp plan {value['name']}",
        *(f"          {line}" for line in next_lines(value["name"], value["obstacles"])),
    ]
    return "\n".join(lines)
