"""A server for others: what runs that it starts may name, read and send."""

import os
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import ConfigError
from flows.config.files import load_config
from flows.engine.checks import problems_of
from flows.engine.server import FILE, STARTED, require_listed_keys, serve_others, server_policy
from flows.methods.wasp.config import WaspConfig
from tests.support.registered import DEMO, add, demo, write_notes

INLINE = {"path": "notes.csv", "text": "note", "label": "kind"}
RECORDED = {"name": "clerk", "connector": "recorded"}


@pytest.fixture
def home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State folder of a server for others with the dataset clinic, in a run that the server started."""
    data = tmp_path / "data"
    data.mkdir()
    write_notes(data)
    monkeypatch.setenv("WASP_DATA", str(data))
    monkeypatch.chdir(data)
    add()
    serve_others(home)
    monkeypatch.setenv(STARTED, "a run")
    return home


def shown(config: WaspConfig, home: Path) -> list[str]:
    return [str(problem) for problem in problems_of(config, home)]


def test_a_run_names_registered_datasets_only(home: Path) -> None:
    for private in (INLINE, {**INLINE, "rows": 2, "rows_are_public": True}):
        (problem,) = shown(demo(private), home)
        assert "wasp dataset add" in problem
    assert shown(demo("clinic"), home) == []
    assert shown(load_config(WaspConfig, DEMO), home) == [], "the package's own rows are fictitious"
    (problem,) = shown(demo("clinic", test=INLINE), home)
    assert "private file of dataset 'clinic'" in problem


def test_the_limits_are_in_a_file_that_no_variable_replaces(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (home / FILE).stat().st_mode & 0o077 == 0
    monkeypatch.setenv("WASP_REGISTERED_ONLY", "0")
    with pytest.raises(ConfigError, match=r"WASP_REGISTERED_ONLY: removed in 0\.3\. Create the file server\.yaml"):
        server_policy()
    monkeypatch.delenv("WASP_REGISTERED_ONLY")
    (home / FILE).write_text("keyes: {}")
    with pytest.raises(ConfigError, match=r"server\.yaml.*\n.*keyes"):
        server_policy()


def test_the_owners_own_commands_have_no_limits(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTED)
    recorded = demo("clinic", plms=[{**RECORDED, "model": "notes.csv"}])
    assert not any("private file" in problem for problem in shown(recorded, home))


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("sqlite:///{home}/ledger.db", "files below its data folder only"),
        ("env:WASP_LEDGER_URL", "files below its data folder only"),
        ("http://127.0.0.1:9/latest/meta-data.csv", "files below its data folder only"),
        ("duckdb:///:memory:", "files below its data folder only"),
        ("{home}/private/answers.csv", "not below the data folder"),
        ("{home}/../elsewhere.csv", "not below the data folder"),
        ("link.csv", "private file of dataset 'clinic'"),
        ("hard.csv", "private file of dataset 'clinic'"),
    ],
)
def test_public_rows_are_public_files_of_the_data_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, path: str, problem: str
) -> None:
    monkeypatch.setenv("WASP_LEDGER_URL", f"sqlite:///{home}/ledger.db")
    for file in (home / "private" / "answers.csv", home.parent / "elsewhere.csv"):
        file.write_text("text,label\nhello,login_problem\n")
    Path("link.csv").symlink_to("notes.csv")
    os.link("notes.csv", "hard.csv")
    rows = {"path": path.format(home=home), "text": "note", "label": "kind"}
    if path.startswith(("sqlite", "env", "duckdb")):
        rows["query"] = "select kind as text, who as label from ledger_entries"
    problems = shown(demo("clinic", test=rows), home)
    assert any(line.startswith("test.path: ") and problem in line for line in problems), problems


def test_the_private_zone_is_closed_where_the_state_folder_is_the_data_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WASP_DATA")
    (home / "private" / "answers.csv").write_text("text,label\nhello,login_problem\n")
    problems = shown(demo("clinic", test={"path": str(home / "private" / "answers.csv")}), home)
    assert any("test.path: this is not below the data folder" in line for line in problems), problems


@pytest.mark.parametrize("model", ["notes.csv", "link.csv", "{home}/../elsewhere.csv", "{home}/private/ledger.key"])
def test_no_field_reads_a_private_file(home: Path, model: str) -> None:
    Path("link.csv").symlink_to("notes.csv")
    (home.parent / "elsewhere.csv").write_text("text,label\nhello,login_problem\n")
    problems = shown(demo("clinic", plms=[{**RECORDED, "model": model.format(home=home)}]), home)
    assert any(line.startswith("plms.0.model: this ") for line in problems), problems


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, ""),
        ({"key": "env:OPENAI_API_KEY"}, ""),
        ({"endpoint": "https://listed.example/v1", "key": "env:LISTED_KEY"}, ""),
        ({"endpoint": "https://llm.example/v1", "key": "none"}, ""),
        ({"endpoint": "https://llm.example/v1"}, "sends env:OPENAI_API_KEY to no host llm.example"),
        ({"key": "env:OTHER_KEY"}, "sends env:OTHER_KEY to no host api.openai.com"),
        ({"endpoint": "https://listed.example/v1", "key": "prefect:other"}, "sends prefect:other to no host"),
        ({"endpoints": ["https://listed.example/v1", "https://b.example"], "key": "env:LISTED_KEY"}, "host b.example"),
        ({"key": "env:WASP_LEDGER_URL"}, "contains no key of a language model"),
        ({"key": "env:PREFECT_API_AUTH_STRING"}, "contains no key of a language model"),
        ({"key": "env:AWS_SECRET_ACCESS_KEY"}, "contains no key of a language model"),
    ],
)
def test_a_key_goes_to_its_vendor_or_to_a_host_that_the_operator_listed(
    home: Path, options: dict[str, Any], problem: str
) -> None:
    from connectors.interfaces.models import ModelSpec

    (home / FILE).write_text("keys: {listed.example: [env:LISTED_KEY]}")
    spec = ModelSpec("writer", "openai", "gpt-x", options)
    if problem:
        with pytest.raises(ConfigError, match=problem):
            require_listed_keys(spec)
    else:
        require_listed_keys(spec)
