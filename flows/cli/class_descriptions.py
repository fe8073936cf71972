"""Descriptions of classes for `wasp init`: of a file, or as their owner types them. They become public."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import typer

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.text_forms import cell_form, is_code
from connectors.rows.cells import decode_any
from connectors.rows.sources import csv_form

MAX_QUESTIONS = 20
"""Classes up to which describing them one by one is the default answer."""
SHOWN = 3
"""Names in a question."""

Descriptions = dict[str, str]
"""Description of each class that has one, by name."""


def read_descriptions(file: Path, classes: Sequence[str]) -> Descriptions:
    """Return the descriptions of a CSV file with one class and its description in each line.

    A first line without a class is a header.

    Raises:
        ConfigError: the file cannot be read, a line has not two cells, or names no class.
    """
    by_form = {cell_form(name): name for name in classes}
    descriptions: Descriptions = {}
    for number, cells in _lines(file):
        name = by_form.get(cell_form(cells[0]))
        if name is not None and len(cells) > 1:
            # A description may contain the separator without quotes.
            descriptions[name] = ", ".join(cell.strip() for cell in cells[1:] if cell.strip())
        elif number > 1:
            known = ", ".join(list(classes)[:SHOWN])
            raise ConfigError(
                f"--descriptions: {file}, line {number}: is not a class and its description. Write CLASS,DESCRIPTION "
                f"with a class such as {known}"
            )
    if not descriptions:
        raise ConfigError(
            f"--descriptions: {file}: describes none of the classes. Write CLASS,DESCRIPTION in each line"
        )
    return descriptions


def request_descriptions(classes: Sequence[str]) -> Descriptions:
    """Ask the owner on a terminal what classes mean whose names do not say it."""
    codes = [name for name in classes if is_code(name)]
    if not codes:
        return {}
    shown = ", ".join(codes[:SHOWN])
    if len(codes) > SHOWN:
        shown += " ..."
    print(
        f"{counted(len(codes), 'class name')} are numbers or codes ({shown}): a model cannot know what they mean. A "
        "description of each becomes public and part of the prompts."
    )
    if not typer.confirm("Describe them now?", default=len(codes) <= MAX_QUESTIONS):
        return {}
    answers = {
        name: typer.prompt(f"Texts of class {name} are about", default="", show_default=False)
        for name in codes
    }
    return {name: answer.strip() for name, answer in answers.items() if answer.strip()}


def _lines(file: Path) -> list[tuple[int, list[str]]]:
    """Return the lines of a CSV file that are not blank, with their numbers."""
    try:
        text = decode_any(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"--descriptions: {file} cannot be read ({error.strerror})") from None
    separator, above = csv_form(text, file.suffix.lower(), [])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    lines = [(reader.line_num, cells) for cells in reader]
    return [(number, cells) for number, cells in lines[above:] if any(map(str.strip, cells))]
