"""`wasp init`: forms of text, names of classes that are codes, Excel files, and what its last line proposes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.runtime.stores import open_ledger
from tests.support.data.notes import notes
from tests.support.runs.own_command import Done, Wasp

SHORT = ("fever", "chest pain", "rash", "cough", "headache", "n/v/d", "SOB", "abd pain")
VALUES = "Hb {}.2 g/dL; WBC 11.4; CRP 12{} mg/L; Na 138; K 4.1"
LETTER = "The patient came with pain number {} and was kept for a night in our ward. " * 30
FORMS = [
    ("short", [SHORT[i % 8] for i in range(80)], 1),
    ("values", [VALUES.format(i % 9, i) for i in range(80)], 10),
    ("long", [LETTER.replace("{}", str(i)) for i in range(40)], 500),
]
MODEL = ("--model", "ngram:letters")


def rows(texts: list[str], labels: tuple[str, ...] = ("heart", "skin")) -> None:
    """Write notes.csv."""
    lines = [f'"{text}",{labels[i % len(labels)]}' for i, text in enumerate(texts)]
    Path("notes.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")


def task() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(Path("triage_task.yaml").read_text("utf-8"))
    return values


def init(wasp: Wasp, *words: str, typed: str | None = None) -> Done:
    start = ("init", "triage", "--data", "notes.csv", "--person", "none", *MODEL)
    return wasp(*start, *words, typed=typed)


@pytest.mark.parametrize(("form", "texts", "words"), FORMS)
def test_the_form_of_the_records_is_proposed_and_declared(
    wasp: Wasp, form: str, texts: list[str], words: int
) -> None:
    rows(texts)
    done = init(wasp, "--yes")
    assert (done.code, f"form      {form}: " in done.out) == (0, True), done.err
    assert (task()["form"], task()["words"]) == (form, words)
    assert wasp("plan", "triage", "--set", "embedder={connector: hashing, model: ''}").code == 0


def test_a_script_without_the_option_gets_prose_and_only_its_owner_a_notice(wasp: Wasp) -> None:
    rows(FORMS[0][1])
    public = ("--class", "heart", "--class", "skin", "--declared-rows", "80", "--language", "en")
    done = init(wasp, *public)
    assert done.code == 0
    assert "the texts look like short (one word or a few), and the task is prose" in done.out
    assert not {"form", "words"} & task().keys()
    other = wasp(
        "init", "again", "--data", "notes.csv", "--person", "none", *MODEL, *public, "--json"
    )
    assert "look like" not in other.out
    for name in ("triage", "again"):
        Path(f"{name}.yaml").unlink()
        Path(f"{name}_task.yaml").unlink()
    assert wasp("dataset", "remove", "triage").code == 0
    chosen = init(wasp, *public, "--form", "short", "--words", "2")
    assert (chosen.code, "look like" in chosen.out) == (0, False)
    assert (task()["form"], task()["words"]) == ("short", 2)


def test_prose_of_usual_length_has_the_prompts_of_earlier_versions(wasp: Wasp) -> None:
    rows([f"The patient came with pain number {i}." for i in range(40)])
    assert init(wasp, "--yes").code == 0
    assert not {"form", "words"} & task().keys()


def test_an_unknown_form_is_refused(wasp: Wasp) -> None:
    rows(FORMS[0][1])
    refused = init(wasp, "--yes", "--form", "shrt")
    assert refused.code == 2
    assert "--form: 'shrt' is none of prose, short, values" in refused.err
    assert "Did you mean 'short'?" in refused.err


NUMBERS = tuple(map(str, range(12)))
NOTES = [f"The patient came with pain number {i}." for i in range(120)]


def test_classes_that_are_numbers_are_in_their_order_and_need_descriptions(wasp: Wasp) -> None:
    rows(NOTES, NUMBERS)
    done = init(wasp, "--yes")
    assert done.code == 0
    assert "classes   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11" in done.out
    warning = (
        "12 class names without a description (numbers, codes, yes or no): '0', '1', '2' and 9 more"
    )
    assert warning in done.out
    assert [label["name"] for label in task()["labels"]] == list(NUMBERS)
    hashing = ("--set", "embedder={connector: hashing, model: ''}")
    assert warning in wasp("plan", "triage", *hashing).out
    described = task()
    for label in described["labels"]:
        label["description"] = "a kind of pain"
    Path("triage_task.yaml").write_text(yaml.safe_dump(described))
    assert "without a description" not in wasp("plan", "triage", *hashing).out


def test_a_file_describes_the_classes(wasp: Wasp) -> None:
    rows(NOTES, NUMBERS)
    lines = [f"{name};kind {name}, of many" for name in NUMBERS]
    Path("kinds.csv").write_text("\n".join(["class;about", *lines]))
    done = init(wasp, "--yes", "--descriptions", "kinds.csv")
    assert (done.code, "without a description" in done.out) == (0, False), done.err
    assert task()["labels"][11] == {"name": "11", "description": "kind 11, of many"}


def test_a_class_of_the_file_of_descriptions_may_be_rare(wasp: Wasp) -> None:
    rows(NOTES[:48], NUMBERS)
    refused = init(wasp, "--yes")
    assert refused.code == 2
    assert "0 labels have at least 5 rows" in refused.err
    assert "--class LABEL (repeatable) or in a file for --descriptions" in refused.err
    Path("kinds.csv").write_text("\n".join(f"{name},kind {name}" for name in NUMBERS[:11]))
    done = init(wasp, "--yes", "--descriptions", "kinds.csv")
    assert done.code == 0, done.err
    assert [label["name"] for label in task()["labels"]] == list(NUMBERS[:11])
    assert "labels with fewer than 5 rows: 11 (4)" in done.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0,zero\n99,none\n", "kinds.csv, line 2: is not a class and its description"),
        ("0,zero\n1\n", "line 2: is not a class and its description"),
        ("class,about\n", "describes none of the classes"),
        (None, "kinds.csv cannot be read (No such file or directory)"),
    ],
)
def test_a_wrong_file_of_descriptions_leaves_nothing(
    wasp: Wasp, content: str | None, message: str
) -> None:
    rows(NOTES, NUMBERS)
    if content is not None:
        Path("kinds.csv").write_text(content)
    refused = init(wasp, "--yes", "--descriptions", "kinds.csv")
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert not Path("triage.yaml").exists()


def test_a_person_describes_codes(wasp: Wasp) -> None:
    rows(NOTES, ("A1", "skin", "true"))
    columns = ("--text", "text", "--label", "label")
    done = init(wasp, *columns, typed="y\ny\nchest pain\n\n")
    assert "2 class names are numbers or codes (A1, true)" in done.out
    assert done.code == 0
    labels = {label["name"]: label["description"] for label in task()["labels"]}
    assert labels == {"A1": "chest pain", "skin": "", "true": ""}
    assert "1 class name without a description (numbers, codes, yes or no): 'true'" in done.out


@pytest.mark.parametrize(
    "labels", [("pain", "skin", "pain;skin"), ("pain;skin", "skin;cough", "cough;pain")]
)
def test_several_labels_in_a_cell_come_with_what_to_do(wasp: Wasp, labels: tuple[str, ...]) -> None:
    rows(NOTES, labels)
    refused = init(wasp, "--yes")
    assert refused.code == 2
    assert "reads like several labels in one cell" in refused.err
    assert "keep its first label, or make one column of yes and no for each label" in refused.err


def test_names_with_commas_are_names(wasp: Wasp) -> None:
    rows(NOTES, ('"card, lost"', '"card, stolen"', '"cash, lost"', '"cash, stolen"'))
    assert init(wasp, "--yes").code == 0


def test_150_classes_are_accepted(wasp: Wasp) -> None:
    rows(NOTES * 8, tuple(f"kind of pain {i}" for i in range(150)))
    assert init(wasp, "--yes").code == 0
    assert len(task()["labels"]) == 150


def test_an_excel_file_is_registered(wasp: Wasp) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    file = openpyxl.Workbook()
    for row in [["text", "label"], *([note, i % 2] for i, note in enumerate(NOTES))]:
        file.active.append(row)
    file.save("notes.xlsx")
    done = wasp("init", "triage", "--data", "notes.xlsx", *MODEL, "--yes")
    assert (done.code, "classes   0, 1" in done.out) == (0, True), done.err


def german() -> None:
    lines = [f'"{text}",{label}' for text, label in notes("de")]
    Path("notes.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")


def test_a_run_whose_texts_would_be_left_out_is_not_proposed(wasp: Wasp) -> None:
    german()
    done = init(wasp, "--yes")
    assert done.code == 0
    assert "do not run yet: letters writes English, and the task is in German (de)" in done.out
    assert "wasp run triage" not in done.out.partition("next ")[2]
    as_json = wasp("init", "again", "--data", "notes.csv", "--yes", *MODEL, "--json")
    assert json.loads(as_json.out.splitlines()[-1])["obstacles"]
    message = "plms: letters writes English, and the task is in German (de), so the texts would be left out"
    guided = (
        "--set",
        "embedder={connector: hashing, model: ''}",
        "--set",
        "method.guidance=kernel",
    )
    for command in ("plan", "run"):
        refused = wasp(command, "triage", *guided)
        assert (refused.code, message in refused.err) == (2, True), refused.err
    status = open_ledger(Path("home").resolve()).status("triage")
    assert (status.spent, status.reserved) == (0, 0)


def test_the_end_of_a_conversation_follows_plan_and_preview(wasp: Wasp) -> None:
    german()
    answers = ["notes.csv", "triage", "", "", "Notiz", "0", "", "8", "y", "y", "y"]
    done = wasp("init", "--endpoint", "", typed="\n".join(answers))
    assert done.code == 2
    done = wasp("init", *MODEL, typed="\n".join(answers))
    assert done.code == 0, done.out + done.err
    end = done.out.rpartition("\nnext ")[2]
    assert "do not run yet: letters writes English" in end
    assert "texts cannot be used: read the reasons before you run" in end
    assert "wasp run" not in end
