"""kill -9 at every point of a release: nothing is charged that was not kept, nothing kept that is not charged."""

from pathlib import Path

import pytest

from connectors.ledger.ledger import PrivacyLedger
from tests.support.contracts.ledger.processes import Killing
from tests.support.ledgers import new_book


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def book(url: str) -> PrivacyLedger:
    return new_book(url)


class TestKilling(Killing):
    """On SQLite; the same on PostgreSQL stands in tests/integration/databases/test_ledger_postgres.py."""
