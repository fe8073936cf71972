"""Reads task files: what is to be written, in which classes. Those that ship lie in `task_files/`; users add theirs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from connectors.interfaces.errors import ConfigError
from flows.config.files import check_config
from flows.config.form import NoBooleans
from flows.config.yaml_files import parse_yaml
from tasks.text import prompts
from tasks.text.prompts import Label, TaskCard

SHIPPED = Path(__file__).with_name("task_files")


def _quoted(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        raise ValueError("YAML reads this as a number or as yes/no; write it in quotes, so that it stays text")
    return value


Text = Annotated[str, BeforeValidator(_quoted), Field(min_length=1)]


class _Form(NoBooleans):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class LabelForm(_Form):
    """One class. A bare name may stand for it."""

    name: Text
    description: str = ""
    words: list[Text] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"name": value}


class AttributeForm(_Form):
    """Something to vary within each class, such as the rating of a review."""

    name: Text
    values: list[Text] = Field(min_length=1)

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: list[str]) -> list[str]:
        _refuse_twins(values, "value")
        return values


class InstructionsForm(_Form):
    """Prompt templates in place of those in tasks/text/prompts.py."""

    zero_shot: Text = prompts.ZERO_SHOT
    contrastive: Text = prompts.CONTRASTIVE
    good_only: Text = prompts.GOOD_ONLY

    @field_validator("zero_shot", "contrastive", "good_only")
    @classmethod
    def _placeholders(cls, template: str, info: ValidationInfo) -> str:
        name = str(info.field_name)
        known, found = prompts.PLACEHOLDERS[name], prompts.placeholders(template)
        if unknown := sorted(found - known):
            raise ValueError(f"unknown placeholder {_braced(unknown)}; known here: {_braced(sorted(known))}")
        if missing := sorted(prompts.REQUIRED[name] - found):
            raise ValueError(f"placeholder {_braced(missing)} is missing")
        return template


class TaskFile(_Form):
    """A task file; only name, item and labels are required."""

    name: Text
    item: Text
    labels: list[LabelForm] = Field(min_length=2)
    attribute: AttributeForm | None = None
    instructions: InstructionsForm = Field(default_factory=InstructionsForm)
    max_tokens: int = Field(256, ge=1)
    language: Text = "en"

    @field_validator("labels")
    @classmethod
    def _distinct(cls, labels: list[LabelForm]) -> list[LabelForm]:
        _refuse_twins([label.name for label in labels], "label")
        return labels

    def card(self) -> TaskCard:
        """Return what the tasks work with."""
        return TaskCard(
            name=self.name,
            item=self.item,
            labels=tuple(Label(label.name, label.description, tuple(label.words)) for label in self.labels),
            attribute=self.attribute.name if self.attribute else "",
            values=tuple(self.attribute.values) if self.attribute else (),
            zero_shot=self.instructions.zero_shot,
            contrastive=self.instructions.contrastive,
            good_only=self.instructions.good_only,
            max_tokens=self.max_tokens,
            language=self.language,
        )


def shipped_tasks() -> list[str]:
    """Return the names of the task files that ship."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def task_place(name_or_path: str) -> str:
    """Return a shipped name as it is, and the whole path of a task file."""
    return name_or_path if name_or_path in shipped_tasks() else str(_find(name_or_path).resolve())


def load_task(name_or_path: str | Path) -> TaskCard:
    """Return the task of a shipped name or of a YAML file; ConfigError with file, field and what to write."""
    path = _find(name_or_path)
    try:
        state = path.stat()
    except OSError as error:
        raise ConfigError(f"{path}: the task file cannot be read ({error})") from None
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _read(path: Path, _changed: int, _size: int) -> TaskCard:
    """Return the task of a file, which plans and steps ask for many times, as it was at a time and with a size."""
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the task file cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: the task file is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a task file is a mapping with at least name, item and labels")
    return check_config(TaskFile, values, str(path)).card()


def _find(name_or_path: str | Path) -> Path:
    name = str(name_or_path)
    if name in shipped_tasks():
        return SHIPPED / f"{name}.yaml"
    path = Path(name).expanduser()
    if path.is_file():
        return path
    raise ConfigError(
        f"There is no task '{name}'. Tasks that ship: {', '.join(shipped_tasks())}. "
        "For a task of your own, give the path of its YAML file"
    )


def _refuse_twins(names: list[str], what: str) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"{what} '{twins[0]}' stands twice")


def _braced(names: list[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
