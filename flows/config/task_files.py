"""Reads task files, which define the texts to generate and their classes.

Shipped task files are in `task_files/`; users add their own.
"""

from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError, nearest
from connectors.interfaces.json_values import Json
from connectors.interfaces.languages import ENGLISH, language_name
from connectors.interfaces.rows import NO_CLASS
from connectors.interfaces.text_forms import MAX_NAME_LENGTH, check_class_name, label_form
from flows.config.extends import EXTENDS, Layer, merge
from flows.config.files import check_config
from flows.config.form import NoBooleans
from flows.config.yaml_files import line_of, read_yaml
from tasks.writing import prompts
from tasks.writing.cleaning_rules import UNSPACED
from tasks.writing.forms import PROSE, tokens_for
from tasks.writing.keyphrase_prompts import count_used
from tasks.writing.prompts import Label, PhraseExample, TaskCard

FormName = Literal["prose", "short", "values", "code", "dialogue", "long"]
MAX_WORDS = 100_000
SHIPPED = Path(__file__).with_name("task_files")


def _quoted(value: object) -> object:
    # A class `no` would become False, and its name "False".
    if isinstance(value, bool | int | float | date | None):
        raise ValueError(
            "YAML reads this as a number, a date, yes/no or nothing. Write it in quotes"
        )
    return value


Text = Annotated[str, BeforeValidator(_quoted), Field(min_length=1)]
ClassName = Annotated[Text, AfterValidator(check_class_name), Field(max_length=MAX_NAME_LENGTH)]


class _Form(NoBooleans):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class LabelForm(_Form):
    """A class; a plain name is short for a class with only a name."""

    name: ClassName
    description: str = ""
    words: list[Text] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: object) -> object:
        if isinstance(value, dict):
            return value
        return {"name": value}


class AttributeForm(_Form):
    """A property to vary within each class, such as the rating of a review."""

    name: Text
    values: list[Text] = Field(min_length=1)

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: list[str]) -> list[str]:
        _refuse_duplicates(values, "value")
        return values


class PhraseExampleForm(_Form):
    """A made-up text and some phrases that it contains, in this order or another."""

    phrases: list[Text] = Field(min_length=1)
    text: Text

    @model_validator(mode="after")
    def _contains_its_phrases(self) -> Self:
        if count_used(self.text, self.phrases) < len(set(self.phrases)):
            raise ValueError("the text lacks one of its phrases. Write each phrase as in the text")
        return self


class InstructionsForm(_Form):
    """Prompt templates that replace the defaults in tasks/writing/prompts.py.

    `example`: the line of an example in a prompt; `good_only_example`: the same in prompts without bad ones.
    `phrase_examples`: the first lines of lists of DP-KPS, of the kind of the item; made up, never private.
    """

    zero_shot: Text = prompts.ZERO_SHOT
    contrastive: Text = prompts.CONTRASTIVE
    good_only: Text = prompts.GOOD_ONLY
    list_heading: str = ""
    example: str = ""
    good_only_example: str = ""
    phrase_examples: list[PhraseExampleForm] = Field(default_factory=list)

    @property
    def templates(self) -> dict[str, Any]:
        """The templates of whole prompts and of lists, by name."""
        return self.model_dump(include=set(prompts.REQUIRED))

    @field_validator("zero_shot", "contrastive", "good_only", "list_heading")
    @classmethod
    def _placeholders(cls, template: str, info: ValidationInfo) -> str:
        _refuse_unknown(template, prompts.REQUIRED[str(info.field_name)] | prompts.OPTIONAL)
        return template

    @field_validator("example", "good_only_example")
    @classmethod
    def _line_of_an_example(cls, line: str) -> str:
        _refuse_unknown(line, prompts.EXAMPLE_PLACEHOLDERS)
        if line and "text" not in prompts.placeholders(line):
            raise ValueError("placeholder {text} is missing. Add it")
        return line


class TaskFile(_Form):
    """A task file; only name and item are required. Without labels the texts have no classes.

    In the file, `extends: NAME` takes what it does not write from another task, a shipped name or a file of the same
    folder; `instructions` are merged one by one.
    """

    name: Text
    item: Text
    labels: list[LabelForm] = Field(default_factory=list)
    attribute: AttributeForm | None = None
    instructions: InstructionsForm = Field(default_factory=InstructionsForm)
    form: FormName = Field(
        PROSE,
        description="Form of a text, which prompts request and the limits of cleaning follow: prose; short: one word "
        "or a few; values: names and values; code; dialogue; long: several paragraphs.",
    )
    words: int | None = Field(
        None,
        ge=1,
        le=MAX_WORDS,
        description="Length of a usual text in words (Chinese, Japanese, Thai, Lao, Khmer, Burmese: letters), which "
        "prompts request. Rounded: it is public.",
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum tokens per text. Empty: 256, or more by form and words.",
    )
    language: Text = Field(
        ENGLISH,
        description="Language of the texts: two letters of ISO 639-1, such as de. Prompts request it, and texts in "
        "another language are left out.",
    )

    @field_validator("labels")
    @classmethod
    def _distinct(cls, labels: list[LabelForm]) -> list[LabelForm]:
        _refuse_duplicates([label_form(label.name) for label in labels], "label")
        if len(labels) == 1:
            raise ValueError(
                "a task has two labels or more. Add one, or remove labels for texts without classes"
            )
        return labels

    @model_validator(mode="after")
    def _instructions_fit(self) -> Self:
        for name, template in self.instructions.templates.items():
            needed = prompts.REQUIRED[name]
            used = prompts.placeholders(template)
            # A task without labels drops the part of a template about the class, see `without_class`.
            if not self.labels:
                needed = needed - prompts.CLASS
                used = prompts.placeholders(prompts.without_class(template))
            if "label_name" in used:
                needed = needed - {"label"}
            if template and (missing := sorted(needed - used)):
                raise ValueError(
                    f"instructions.{name}: placeholder {_braced(missing)} is missing. Add it"
                )
            if not self.labels and (idle := sorted(used & prompts.CLASS)):
                raise ValueError(
                    f"instructions.{name}: the task has no labels for {_braced(idle)}. Remove it"
                )
        return self

    def card(self) -> TaskCard:
        """Return the task card for the steps."""
        form = ""
        # Prose is the form of earlier versions: their runs keep their ids.
        if self.form != PROSE:
            form = self.form
        labels = [Label(label.name, label.description, tuple(label.words)) for label in self.labels]
        attribute = ""
        values: tuple[str, ...] = ()
        if self.attribute is not None:
            attribute = self.attribute.name
            values = tuple(self.attribute.values)
        prompt_language = ""
        # Prompts are English: those of English tasks stay as in earlier versions.
        if self.language != ENGLISH:
            prompt_language = language_name(self.language)
        return TaskCard(
            # Texts without classes are one class for all steps.
            labels=tuple(labels or [Label(NO_CLASS)]),
            attribute=attribute,
            values=values,
            phrase_examples=tuple(
                PhraseExample(tuple(example.phrases), example.text)
                for example in self.instructions.phrase_examples
            ),
            prompt_language=prompt_language,
            form=form,
            length=self._length,
            max_tokens=self.max_tokens or tokens_for(form, self.words or 0),
            **self.instructions.templates,
            example=self.instructions.example,
            good_only_example=self.instructions.good_only_example,
            **self.model_dump(include={"name", "item", "language"}),
        )

    @property
    def _length(self) -> str:
        """The declared length for prompts; empty without a declaration."""
        if self.words is None:
            return ""
        # Without blanks between words nobody counts words.
        unit = "character" if self.language in UNSPACED else "word"
        return counted(self.words, unit).replace(",", "")


def shipped_tasks() -> list[str]:
    """Return the names of the shipped task files."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def task_place(name_or_path: str) -> str:
    """Return a shipped name unchanged, and the absolute path of any other task file."""
    # A shipped name stays: the path of the package differs between machines.
    if name_or_path in shipped_tasks():
        return name_or_path
    return str(_find(name_or_path).resolve())


def load_task(name_or_path: str | Path) -> TaskCard:
    """Return the task of a shipped name or a file; ConfigError with file and field."""
    path = _find(name_or_path)
    return check_config(TaskFile, _values(path), str(path), partial(line_of, path)).card()


def _values(path: Path, extended_by: tuple[Path, ...] = ()) -> Json:
    """Return the values of a task file and of the one that it extends."""
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}: not a mapping. Write a task file with at least name, item and labels"
        )
    if EXTENDS not in values:
        return values
    base = _base(path, values[EXTENDS])
    passed = (*extended_by, path)
    if base in passed:
        raise ConfigError(f"{path}: extends: {base} extends this file. Remove one of them")
    own = {name: value for name, value in values.items() if name != EXTENDS}
    return merge([Layer(path, own), Layer(base, _values(base, passed))])


def _base(path: Path, name: object) -> Path:
    neighbour = path.parent / str(name)
    if neighbour.is_file():
        return neighbour
    try:
        return _find(str(name))
    except ConfigError as error:
        raise ConfigError(f"{path}: extends: {error}") from error


def _find(name_or_path: str | Path) -> Path:
    name = str(name_or_path)
    if name in shipped_tasks():
        return SHIPPED / f"{name}.yaml"
    path = Path(name).expanduser()
    if path.is_file():
        return path
    raise ConfigError(
        f"task: there is no task '{name}'.{nearest(name, shipped_tasks())} Shipped tasks: "
        f"{', '.join(shipped_tasks())}. For your own task, give the path of its YAML file"
    )


def _refuse_duplicates(names: list[str], kind: str) -> None:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"{kind} '{duplicates[0]}' is defined twice. Remove one")


def _refuse_unknown(template: str, valid: frozenset[str]) -> None:
    if unknown := sorted(prompts.placeholders(template) - valid):
        raise ValueError(
            f"unknown placeholder {_braced(unknown)}. Choose from {_braced(sorted(valid))}"
        )


def _braced(names: list[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
