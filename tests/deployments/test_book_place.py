"""One state folder, one budget book: a stack never begins a second one beside a book that has entries."""

import pytest

from connectors.interfaces.errors import ConfigError
from deployments.stack.control import choose_ledger_address
from deployments.stack.settings import Settings
from flows.cli import budget
from flows.runtime.state_folder import ledger_address

KEPT = {"ledger": "secret"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WASP_HOME", str(tmp_path))
    tmp_path.chmod(0o700)
    return tmp_path


def settings(home, database: str, port: int = 5439) -> Settings:
    return Settings(str(home), str(home), database, postgres_port=port)


def test_a_new_book_goes_to_postgresql_and_every_command_knows(home) -> None:
    address = choose_ledger_address(settings(home, "postgresql"), KEPT)
    assert address == "postgresql+psycopg2://ledger:secret@127.0.0.1:5439/ledger"
    assert ledger_address(home) == address
    assert (home / "private" / "ledger.url").stat().st_mode & 0o077 == 0


def test_the_address_follows_a_changed_port(home) -> None:
    choose_ledger_address(settings(home, "postgresql"), KEPT)
    assert ":6000/" in choose_ledger_address(settings(home, "postgresql", 6000), KEPT)
    assert ":6000/" in ledger_address(home)


def test_a_book_with_entries_stays_where_it_is(home) -> None:
    budget.cap("letters", 4.0, 1e-5, "the owner's word", declare=True)
    assert choose_ledger_address(settings(home, "postgresql"), KEPT) == ""
    assert ledger_address(home).startswith("sqlite:///")
    assert budget.show("letters")["datasets"][0]["cap"] == 4.0


def test_a_book_in_postgresql_is_not_left_behind_for_sqlite(home) -> None:
    choose_ledger_address(settings(home, "postgresql"), KEPT)
    with pytest.raises(ConfigError, match="is in PostgreSQL.*WASP_DATABASE=postgresql"):
        choose_ledger_address(settings(home, "sqlite"), KEPT)


def test_the_persons_own_book_wins(home, monkeypatch) -> None:
    monkeypatch.setenv("WASP_LEDGER_URL", "postgresql+psycopg2://owner@books/ledger")
    assert choose_ledger_address(settings(home, "postgresql"), KEPT) == "postgresql+psycopg2://owner@books/ledger"
    assert not (home / "private" / "ledger.url").exists()
