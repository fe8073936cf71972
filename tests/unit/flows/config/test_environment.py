"""One class names every variable WASP_*: types, empty values, unknown names."""

from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError
from flows.config.environment import environment, unknown_variables


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_DATA", "")
    assert environment().data is None
    monkeypatch.setenv("WASP_DATA", "rows")
    assert environment().data == Path("rows")


def test_a_removed_variable_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_LEDGER_KEY_FILE", "key")
    with pytest.raises(ConfigError, match=r"WASP_LEDGER_KEY_FILE: removed in 0\.3\. Copy that file"):
        environment()


def test_an_invalid_value_is_refused_with_the_variable_s_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_QUIET", "perhaps")
    with pytest.raises(ConfigError, match=r"WASP_QUIET: .*perhaps"):
        environment()


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_LEDGERURL", "sqlite:///a.db")
    monkeypatch.setenv("WASP_SECRET_OPENAI", "x")
    assert "WASP_LEDGERURL" in unknown_variables()
    assert "WASP_SECRET_OPENAI" not in unknown_variables()
