"""`wasp init`: what it refuses, and what it writes."""

import io
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

import connectors.data
from flows.cli.main import main
from flows.runtime.stores import open_ledger

DATA = Path(connectors.data.__file__).parent / "support_desk" / "private.parquet"
FAST = ("--set", "method.samples=90", "--set", "embedder={connector: hashing, model: '', options: {dimension: 128}}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with notes.csv, whose columns are note and category."""
    pd.read_parquet(DATA).rename(columns={"text": "note", "label": "category"}).to_csv(
        tmp_path / "notes.csv", index=False
    )
    return tmp_path


def called(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Call the command in this process, in the folder; return its exit code."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WASP_HOME", str(folder / "home"))
    monkeypatch.setattr("sys.argv", ["wasp", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


class Terminal(io.StringIO):
    """Standard input of a person."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", "nothing"], "no column 'nothing'"),
        (["--label", "note"], "--label: 0 labels have at least 5 rows"),
        (["--class", "billing_question", "--class", "nosuch"], "--class: no row has the label 'nosuch'. Write one of"),
        (["--model", "gpt-4o"], "--model: 'gpt-4o' is not CONNECTOR:MODEL"),
        (["--model", "recorded:/no/such.jsonl"], "/no/such.jsonl"),
        (["--epsilon", "0"], "--epsilon: 0 is not a positive number"),
        (["--epsilon", "-1"], "--epsilon: -1 is not a positive number"),
        (["--epsilon", "nan"], "--epsilon: nan is not a positive number"),
        (["--epsilon", "inf"], "--epsilon: inf is not a positive number"),
        (["--epsilon-cap", "1"], "--epsilon: 4 exceeds the cap 1"),
        (["--epsilon", "9"], "--epsilon: 9 exceeds the cap 8"),
        (["--person", "nosuch"], "no column 'nosuch'"),
        (["--endpoint", "http://127.0.0.1:9/v1"], "--endpoint: http://127.0.0.1:9/v1 lists no models"),
        (["--model", "ngram:letters", "--endpoint", "http://127.0.0.1:9/v1"], "endpoint"),
    ],
)
def test_a_wrong_option_registers_and_writes_nothing(
    folder: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = called(folder, monkeypatch, "init", "triage", "--data", "notes.csv", "--yes", *words)
    assert refused == 2
    assert message in capsys.readouterr().err
    assert [file.name for file in folder.iterdir() if file.name != "home"] == ["notes.csv"]
    assert open_ledger(folder / "home").datasets() == []


def test_an_init_that_fails_at_its_last_step_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "schema").write_text("a file where a folder should be")
    words = ("init", "triage", "--data", "notes.csv", "--yes", "--test-share", "0.2")
    assert called(folder, monkeypatch, *words) == 1
    assert "schema" in capsys.readouterr().err
    assert sorted(file.name for file in folder.iterdir()) == ["home", "notes.csv"]
    assert not list((folder / "home/private").rglob("*.parquet"))
    (folder / "home" / "schema").unlink()
    assert called(folder, monkeypatch, *words) == 0
    assert "triage_test.parquet" in capsys.readouterr().out


NAMES = ("Zoë", "José", "Günter")


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """Return a folder with notes.csv in Latin-1: 60 rows of 20 patients."""
    lines = [f"{NAMES[row % 3]} has pain of kind {row},{'ab'[row % 2]},p{row % 20}\n" for row in range(60)]
    (tmp_path / "notes.csv").write_bytes("".join(["note,kind,patient\n", *lines]).encode("latin-1"))
    return tmp_path


INIT = ("init", "triage", "--data", "notes.csv", "--text", "note", "--label", "kind", "--yes")


def test_a_column_of_persons_needs_a_decision(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(clinic, monkeypatch, *INIT) == 2
    assert "'patient' has 20 values in 60 rows. If each value is a person" in capsys.readouterr().err
    assert called(clinic, monkeypatch, *INIT, "--person", "none") == 0
    values = yaml.safe_load((clinic / "triage.yaml").read_text())
    assert values["privacy"] == {"epsilon": 4.0, "delta": 1e-5}


@pytest.mark.parametrize(("answer", "protects"), [("", "person"), ("none", None)])
def test_a_column_of_persons_is_a_question_on_a_terminal(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, answer: str, protects: str | None
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    assert called(clinic, monkeypatch, *INIT) == 0
    assert yaml.safe_load((clinic / "triage.yaml").read_text())["privacy"].get("protects") == protects


UNCONFIRMED = (*INIT[:-1], "--person", "none")


@pytest.mark.parametrize("words", [(), ("--class", "a", "--class", "b"), ("--declared-rows", "50", "--language", "en")])
def test_a_script_declares_classes_number_and_language_or_learns_nothing(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert called(clinic, monkeypatch, *UNCONFIRMED, "--json", *words) == 2
    out, error = capsys.readouterr()
    assert "become public, so the owner of the rows declares them" in error
    assert not any(secret in out + error for secret in ("60", "20", "a, b"))
    assert not (clinic / "triage.yaml").exists()
    full = ("--class", "a", "--class", "b", "--declared-rows", "50", "--language", "de")
    assert called(clinic, monkeypatch, *UNCONFIRMED, "--json", *full) == 0
    assert not {"rows", "left_out", "persons"} & json.loads(capsys.readouterr().out).keys()
    assert yaml.safe_load((clinic / "triage_task.yaml").read_text())["language"] == "de"


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_a_proposal_is_written_after_the_owners_yes(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    assert called(clinic, monkeypatch, *UNCONFIRMED) == code
    assert "classes   a, b" in capsys.readouterr().out
    assert (clinic / "triage.yaml").exists() == (code == 0)
    assert bool(open_ledger(clinic / "home").datasets()) == (code == 0)


def test_a_person_column_protects_and_declares_persons(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(clinic, monkeypatch, *INIT, "--person", "patient") == 0
    out = capsys.readouterr().out
    assert "60 rows of 20 persons, declared as 20" in out
    assert "line 2 is not UTF-8" in out
    words = ("plan", "triage", *FAST, "--set", "method.guidance=kernel")
    assert called(clinic, monkeypatch, *words) == 0
    assert "one person (at most 8 rows of each, joined by mean)" in capsys.readouterr().out
    assert called(clinic, monkeypatch, *words, "--set", "privacy.protects=record") == 0
    assert "only single rows are protected" in capsys.readouterr().out


def test_the_held_out_rows_are_chosen_by_content_and_by_person(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *rows = (clinic / "notes.csv").read_bytes().splitlines(keepends=True)
    sides = []
    for name, lines in (("triage", rows), ("again", rows[::-1])):
        (clinic / "notes.csv").write_bytes(b"".join([head, *lines]))
        words = ("init", name, *INIT[2:], "--person", "patient", "--test-share", "0.3")
        assert called(clinic, monkeypatch, *words) == 0
        files = (clinic / "home/private/datasets" / f"{name}.parquet", clinic / f"{name}_test.parquet")
        assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
        private, test = (pd.read_parquet(file) for file in files)
        assert not set(private["person"]) & set(test["person"])
        assert len(private) + len(test) == 60
        assert 3 <= test["person"].nunique() <= 9
        sides.append(sorted(test["text"]))
    assert sides[0] == sides[1]
    assert "pain" not in capsys.readouterr().out
    assert called(clinic, monkeypatch, "plan", "triage", *FAST) == 0
    assert "no test rows" not in capsys.readouterr().out


def test_a_conversation_on_a_terminal_ends_with_plan_and_preview(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = (
        "nosuch.csv",
        "notes.csv",
        "triage",
        "",
        "kind",
        "clinical note",
        "0.9",
        "0.2",
        "gpt-4o",
        "ngram:letters",
        "-1",
        "3",
    )
    monkeypatch.setattr("sys.stdin", Terminal("\n".join([*answers, "patient", "y", "y", "y", ""])))
    assert called(clinic, monkeypatch, "init") == 0
    out = capsys.readouterr().out
    for reason in ("nosuch.csv", "0.9 is not between", "'gpt-4o' is not CONNECTOR:MODEL", "-1 is not greater than 0"):
        assert reason in out
    order = ("dataset   triage", "protects  each person", "opening       index", "epsilon spent: 0", "wasp run triage")
    assert sorted(order, key=out.rindex) == list(order)
    values = yaml.safe_load((clinic / "triage.yaml").read_text())
    assert values["privacy"] == {"epsilon": 3.0, "delta": 1e-5, "protects": "person"}
    assert values["test"] == {"path": "triage_test.parquet"}
    assert yaml.safe_load((clinic / "triage_task.yaml").read_text())["item"] == "clinical note"


def test_a_script_without_name_or_data_is_told_both(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(clinic, monkeypatch, "init") == 2
    assert "NAME, --data: one is not set. Write both" in capsys.readouterr().err
