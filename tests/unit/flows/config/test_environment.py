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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WASP_LEDGER_KEY_FILE", "key", r"removed in 0\.3\. Copy that file to private/ledger\.key"),
        ("WASP_QUIET", "perhaps", ".*perhaps"),
    ],
)
def test_a_removed_variable_or_an_invalid_value_is_refused_with_what_to_do(
    name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name}: {message}"):
        environment()


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_LEDGERURL", "sqlite:///a.db")
    monkeypatch.setenv("WASP_SECRET_OPENAI", "x")
    assert "WASP_LEDGERURL" in unknown_variables()
    assert "WASP_SECRET_OPENAI" not in unknown_variables()
