"""`wasp init` in a terminal: the questions about a file, whatever separates its columns."""

from pathlib import Path

import pytest

from tests.support.processes.terminal import Terminal
from tests.support.runs.pipeline import Pipeline


@pytest.mark.parametrize(
    ("separator", "first"),
    [(";", ""), ("\t", ""), ("|", ""), (";", "sep=;\n")],
    ids=["semicolon", "tab", "bar", "sep line"],
)
def test_the_columns_of_a_file_are_offered_after_an_answer_that_names_none(
    tmp_path: Path, separator: str, first: str
) -> None:
    lines = [f"note{separator}kind"]
    lines += [f"made-up note {number}, with a comma{separator}door" for number in range(30)]
    file = tmp_path / "notes.csv"
    file.write_text(first + "\n".join(lines))
    environment = Pipeline(tmp_path / "home").environment
    with Terminal("init", environment=environment, folder=tmp_path) as terminal:
        terminal.wait_for("File of your rows")
        terminal.press(b"\n")
        terminal.wait_for("no file was named. Write its path")
        terminal.press(f"{file}\n".encode())
        terminal.wait_for(r"Name of the dataset \[notes\]")
        terminal.press(b"\n")
        terminal.wait_for("columns: note, kind")
        terminal.wait_for(r"Text column \[note\]")
