"""Values that the owner of rows declares in `wasp init`: they become public with every run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connectors.interfaces.counts import counted
from flows.cli.class_descriptions import Descriptions
from flows.cli.init_options import PublicOptions
from tasks.writing.forms import PROSE, form_of

if TYPE_CHECKING:
    from tasks.private.rows.survey import Survey


@dataclass(frozen=True, slots=True)
class Declared:
    """Declarations of the owner about the rows, without the classes; they become public with every run.

    Attributes:
        number: rows or persons, rounded.
        language: ISO 639-1.
        form: form of a text.
        words: length of a usual text for prompts, rounded; None for none.
        descriptions: description of each class that has one, by name.
    """

    number: int
    language: str
    form: str = PROSE
    words: int | None = None
    descriptions: Descriptions = field(default_factory=dict)


def form_line(form: str, words: int | None) -> str:
    """Return form and length of a text for a person."""
    line = f"{form}: {form_of(form).title}"
    if words is not None:
        line += f"; about {counted(words, 'word')} (median of the records, rounded)"
    return line


def form_notice(options: PublicOptions, declared: Declared, records: Survey) -> list[str]:
    """Return what to check if the rows look like another form than the one of the task."""
    if declared.form == records.form or options.form is not None:
        return []
    return [
        f"the texts look like {records.form} ({form_of(records.form).title}), and the task is {declared.form}: many "
        f"generated texts may be left out. Write form: {records.form} into the task file, or start again with --form"
    ]
