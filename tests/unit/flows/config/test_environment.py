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


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_a_server_for_others_is_one_by_its_variable(
    value: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_REGISTERED_ONLY", value)
    assert environment().registered_only == expected


def test_an_invalid_value_is_refused_with_the_variable_s_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_REGISTERED_ONLY", "perhaps")
    with pytest.raises(ConfigError, match=r"WASP_REGISTERED_ONLY: .*perhaps"):
        environment()


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_LEDGERURL", "sqlite:///a.db")
    monkeypatch.setenv("WASP_SECRET_OPENAI", "x")
    assert "WASP_LEDGERURL" in unknown_variables()
    assert "WASP_SECRET_OPENAI" not in unknown_variables()
