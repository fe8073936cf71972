"""The owner declares the classes of records; a task with other classes is refused without opening one."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import wasp as python_interface
from connectors.interfaces.errors import ConfigError, NoFittingRowsError
from flows.config.files import load_config
from flows.engine.prepare import prepare, require_fitting_records
from flows.engine.server import STARTED
from flows.methods.wasp.config import WaspConfig
from flows.runtime.stores import open_ledger
from tests.support.runs.own_command import Done, Wasp

FAST = (
    "--set",
    "method.samples=90",
    "--set",
    "method.guidance=kernel",
    "--set",
    "method.examples=8",
    "--set",
    "embedder={connector: hashing, model: '', options: {dimension: 128}}",
)
OPTIONS = ("--model", "ngram:helpdesk", "--text", "text", "--label", "label")


def write(labels: Sequence[Any], file: str = "notes.parquet", rows: int = 60) -> Path:
    """Write a file of texts with these labels in turn."""
    texts = [
        f"the patient in room {n} has a complaint of kind {n % 7} since monday" for n in range(rows)
    ]
    frame = pd.DataFrame({"text": texts, "label": [labels[n % len(labels)] for n in range(rows)]})
    path = Path(file)
    frame.to_csv(path, index=False) if file.endswith(".csv") else frame.to_parquet(path)
    path.chmod(0o600)
    return path


def init(wasp: Wasp, *words: str, file: str = "notes.parquet", typed: str | None = None) -> Done:
    """Set up a run on the file."""
    return wasp("init", "triage", "--data", file, *OPTIONS, *words, typed=typed)


def classes_of(name: str = "triage") -> list[str]:
    """Return the classes of a task file."""
    return [
        label["name"] for label in yaml.safe_load(Path(f"{name}_task.yaml").read_text())["labels"]
    ]


SPELLINGS: dict[str, tuple[list[Any], list[str]]] = {
    "padded": (["pain      ", "skin      "], ["pain", "skin"]),
    "blanks of the web": (["pain\u00a0", "\ufeffpain", "skin"], ["pain", "skin"]),
    "two forms of unicode": (
        [unicodedata.normalize(form, "Übelkeit") for form in ("NFC", "NFD")] + ["Atemnot"],
        ["Atemnot", "Übelkeit"],
    ),
    "doubles": ([1.0, 2.0, None], ["1", "2"]),
    "booleans": ([True, False], ["false", "true"]),
    "dates": (
        [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-02-01")],
        ["2024-01-01", "2024-02-01"],
    ),
}


@pytest.mark.parametrize(("labels", "classes"), SPELLINGS.values(), ids=SPELLINGS)
def test_init_writes_each_class_once_and_its_test_file_fits(
    wasp: Wasp, labels: list[Any], classes: list[str]
) -> None:
    write(labels)
    done = init(wasp, "--yes", "--test-share", "0.3")
    assert (done.code, classes_of()) == (0, classes), done.err
    assert set(pd.read_parquet("triage_test.parquet")["label"]) == set(classes)
    view = open_ledger(Path("home").resolve()).views()["triage"][1]
    assert view["declared_classes"] == classes
    assert wasp("plan", "triage", *FAST).code == 0


DOUBTS: dict[str, tuple[list[str], str]] = {
    "case": (["Pain", "pain", "skin"], "'Pain' and 'pain' differ only in case, blanks or width"),
    "width": (["pain", "\uff50\uff41\uff49\uff4e", "skin"], "differ only in case, blanks or width"),
    "missing": (["pain", "skin", "N/A"], "'N/A' reads like a missing value"),
    "nan": (["pain", "skin", "nan"], "'nan' reads like a missing value"),
    "several": (
        ["pain", "skin", "pain;skin"],
        "'pain;skin' reads like several labels in one cell (pain, skin)",
    ),
    "several with blanks": (
        ["pain", "skin", "skin / pain"],
        "reads like several labels in one cell (skin, pain)",
    ),
    "lists as text": (
        ["['pain']", "['skin']", "['pain', 'skin']"],
        "reads like several labels in one cell",
    ),
    "decimals": (["1.1", "1.10", "2"], "1.1 and 1.10 are read as one number"),
}


@pytest.mark.parametrize(("labels", "message"), DOUBTS.values(), ids=DOUBTS)
def test_names_that_look_like_a_mistake_need_a_confirmation(
    wasp: Wasp, labels: list[str], message: str
) -> None:
    write(labels, "notes.csv")
    refused = init(wasp, "--yes", file="notes.csv")
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert "--class LABEL" in refused.err
    assert not Path("triage.yaml").exists()
    asked = init(wasp, file="notes.csv", typed="n\n")
    assert (asked.code, f"check     {message}" in asked.out or message in asked.out) == (2, True)
    added = wasp("dataset", "add", "clinic", "--path", "notes.csv", "--yes")
    assert (added.code, message in added.err) == (2, True)
    assert open_ledger(Path("home").resolve()).datasets() == []
    named = [word for label in labels for word in ("--class", label)]
    assert init(wasp, "--yes", *named, file="notes.csv").code == 0
    assert classes_of() == labels
    assert wasp("plan", "triage", *FAST).code == 0


def test_a_line_break_in_the_name_of_a_class_is_refused(wasp: Wasp) -> None:
    write(["skin:\nrash", "pain"], "notes.csv")
    refused = init(wasp, "--yes", file="notes.csv")
    assert (refused.code, "contains a line break" in refused.err) == (2, True)
    assert wasp("dataset", "add", "clinic", "--path", "notes.csv", "--yes").code == 2
    assert wasp("dataset", "add", "clinic", "--path", "notes.csv", "--class", "pain").code == 0


def test_a_task_with_another_class_is_refused_before_a_record_is_opened(
    wasp: Wasp, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(["pain", "skin"])
    assert init(wasp, "--yes").code == 0
    task = Path("triage_task.yaml")
    task.write_text(task.read_text().replace("name: pain", "name: pian"))
    monkeypatch.setattr("tasks.private.rows.rows.identify", None)
    monkeypatch.setattr("flows.engine.prepare.identify", None)
    path.unlink()
    path.mkdir()  # any attempt to read it fails
    message = "the records have no class 'pian': the owner of 'triage' declared pain, skin. Did you mean 'pain'?"
    planned = wasp("plan", "triage", *FAST)
    assert (planned.code, message in " ".join((planned.out + planned.err).split())) == (2, True)
    config = load_config(
        WaspConfig, Path("triage.yaml"), [word for word in FAST if word != "--set"]
    )
    with pytest.raises(ConfigError, match="no class 'pian'"):
        prepare("wasp", config, Path("home").resolve())
    assert open_ledger(Path("home").resolve()).status("triage").spent == 0


def test_a_dataset_without_declared_classes_is_registered_and_no_run_starts(wasp: Wasp) -> None:
    write([1.0, 2.0])
    added = wasp("dataset", "add", "clinic", "--path", "notes.parquet")
    assert (added.code, "classes  not declared, so no run starts" in added.out) == (0, True)
    assert init(wasp, "--yes").code == 0
    config = Path("triage.yaml")
    config.write_text(config.read_text().replace("private: triage", "private: clinic"))
    refused = wasp("plan", "triage", *FAST)
    assert (refused.code, "wasp dataset declare clinic" in refused.out + refused.err) == (2, True)
    silent = wasp("dataset", "declare", "clinic")
    assert (
        silent.code,
        "the owner of the rows declares them" in silent.err,
        "1, 2" in silent.err,
    ) == (2, True, False)
    declared = wasp("dataset", "declare", "clinic", "--class", "1.0", "--class", "2.0", "--json")
    assert json.loads(declared.out)["classes"] == ["1.0", "2.0"]
    assert wasp("plan", "triage", *FAST).code == 0
    assert wasp("dataset", "declare", "clinic", "--class", "7").code == 2


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_dataset_add_prompts_on_a_terminal(wasp: Wasp, answer: str, code: int) -> None:
    write(["pain", "skin"])
    added = wasp("dataset", "add", "clinic", "--path", "notes.parquet", typed=f"{answer}\n")
    assert (added.code, "classes   pain, skin" in added.out) == (code, True)
    assert bool(open_ledger(Path("home").resolve()).datasets()) == (code == 0)


def undeclare(name: str = "triage") -> None:
    """Turn the view of a dataset into that of an earlier version, without declared classes."""
    ledger = open_ledger(Path("home").resolve())
    view = ledger.views()[name][1]
    del view["declared_classes"]
    ledger.set_view(name, view, "an earlier version")


APPROVED = ("--set", "execution.approval=true")


@pytest.mark.parametrize("unseen", ["approval", "server"])
def test_a_dataset_of_an_earlier_version_stays_valid_where_its_owner_looks_first(
    wasp: Wasp, monkeypatch: pytest.MonkeyPatch, unseen: str
) -> None:
    write(["pain", "skin"])
    assert init(wasp, "--yes").code == 0
    undeclare()
    assert wasp("plan", "triage", *FAST).code == 0
    if unseen == "server":
        monkeypatch.setenv(STARTED, "a run")
    further = APPROVED if unseen == "approval" else ()
    refused = wasp("plan", "triage", *FAST, *further)
    said = " ".join((refused.out + refused.err).split())
    assert (refused.code, "Let their owner run: wasp dataset declare triage" in said) == (2, True)
    assert wasp("dataset", "declare", "triage", "--yes").code == 0
    assert wasp("plan", "triage", *FAST, *further).code == 0


LOCATED = (
    "flow: wasp\nextends: own_data\ntask: task.yaml\n"
    "private: {path: notes.parquet, declared_rows: 60}\ntest: null\n"
)


@pytest.mark.parametrize("command", ["run", "compare"])
def test_records_of_other_classes_are_refused_to_their_owner_and_never_charged(
    wasp: Wasp, command: str
) -> None:
    write(["Pain", "Skin"])
    Path("task.yaml").write_text("name: t\nitem: note\nlabels: [pain, skin]\n")
    Path("mine.yaml").write_text(LOCATED)
    Path("table.yaml").write_text(
        "flow: compare\ntitle: t\n"
        "rows: [{name: a, config: mine.yaml, set: {method.guidance: kernel, method.examples: 8}}]\n"
    )
    refused = wasp(
        command, "mine" if command == "run" else "table", *(FAST if command == "run" else ())
    )
    said = " ".join(refused.err.split())
    assert (
        refused.code,
        "no row of notes.parquet has a text and one of the classes pain, skin" in said,
    ) == (2, True)
    assert "Nothing was charged; this answer has no noise, so it is not private" in said
    assert open_ledger(Path("home").resolve()).datasets() == []
    assert not list(Path("home").glob("runs/*"))


def test_records_are_not_opened_before_an_approval(
    wasp: Wasp, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(["Pain", "Skin"])
    Path("task.yaml").write_text("name: t\nitem: note\nlabels: [pain, skin]\n")
    Path("mine.yaml").write_text(LOCATED)
    monkeypatch.setattr("flows.engine.prepare.require_rows_of", None)
    home = Path("home").resolve()
    changes = [word for word in FAST if word != "--set"]
    config = load_config(WaspConfig, Path("mine.yaml"), [*changes, APPROVED[1]])
    require_fitting_records(config, home)
    with pytest.raises(TypeError, match="NoneType"):
        require_fitting_records(load_config(WaspConfig, Path("mine.yaml"), changes), home)


@pytest.mark.parametrize("unseen", ["approval", "server"])
def test_records_that_nobody_looks_at_are_not_charged_without_declared_classes(
    wasp: Wasp, monkeypatch: pytest.MonkeyPatch, unseen: str
) -> None:
    write(["Pain", "Skin"])
    Path("task.yaml").write_text("name: t\nitem: note\nlabels: [pain, skin]\n")
    Path("mine.yaml").write_text(LOCATED)
    home = Path("home").resolve()
    changes = [word for word in FAST if word != "--set"]
    if unseen == "server":
        monkeypatch.setenv(STARTED, "a run")
    else:
        changes.append(APPROVED[1])

    def prepared(*further: str) -> Any:
        config = load_config(WaspConfig, Path("mine.yaml"), [*changes, *further])
        return prepare("wasp", config, home, lambda *_: None)

    with monkeypatch.context() as closed:
        closed.setattr("flows.engine.prepare.identify", None)
        with pytest.raises(ConfigError, match="wasp dataset add NAME --path PATH"):
            prepared()
    assert open_ledger(home).datasets() == []
    assert prepared("private.classes={pain: [Pain], skin: [Skin]}").tools.run_name.dataset
    with pytest.raises(NoFittingRowsError, match="no row of"):  # public rows: the run itself looks
        prepared("private.rows=20", "private.rows_are_public=true")


def test_records_of_an_earlier_registration_are_looked_at_before_their_owners_run(
    wasp: Wasp,
) -> None:
    write(["Pain", "Skin"])
    assert (
        wasp(
            "dataset",
            "add",
            "triage",
            "--path",
            "notes.parquet",
            "--class",
            "Pain",
            "--class",
            "Skin",
        ).code
        == 0
    )
    home = Path("home").resolve()
    undeclare()
    Path("task.yaml").write_text("name: t\nitem: note\nlabels: [pain, skin]\n")
    Path("mine.yaml").write_text(
        "flow: wasp\nextends: own_data\ntask: task.yaml\nprivate: triage\ntest: null\n"
    )
    refused = wasp("run", "mine", *FAST)
    assert (refused.code, "one of the classes pain, skin" in " ".join(refused.err.split())) == (
        2,
        True,
    )
    assert open_ledger(home).status("triage").spent == 0


def test_codes_declare_their_classes(wasp: Wasp) -> None:
    write(["250.10", "401.9"], "notes.csv")
    codes = ("--classes", "sugar=250", "--classes", "heart=401")
    assert wasp("dataset", "add", "clinic", "--path", "notes.csv", *codes).code == 0
    Path("task.yaml").write_text("name: t\nitem: note\nlabels: [sugar, liver]\n")
    Path("mine.yaml").write_text(
        "flow: wasp\nextends: own_data\ntask: task.yaml\nprivate: clinic\ntest: null\n"
    )
    refused = wasp("plan", "mine", *FAST)
    assert (refused.code, "no class 'liver'" in refused.out + refused.err) == (2, True)


def test_python_declares_classes(wasp: Wasp) -> None:
    assert wasp("dataset", "list").code == 0
    frame = pd.DataFrame({"text": ["one text"] * 6, "label": pd.Categorical(["a ", "b"] * 3)})
    python_interface.Dataset.register("clinic", frame, classes=["a", "b"])
    assert open_ledger(Path("home").resolve()).views()["clinic"][1]["declared_classes"] == [
        "a",
        "b",
    ]
    with pytest.raises(python_interface.WaspError, match="no row has the label 'c'"):
        python_interface.Dataset.register("other", frame, classes=["c"])
