"""Where the budget book of a state folder lies: one book, whether the stack runs or not."""

from __future__ import annotations

import os
from collections.abc import Mapping

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError
from deployments.stack.postgres import url
from deployments.stack.settings import Settings
from flows.runtime.state_folder import ledger_address_file


def place_book(settings: Settings, kept: Mapping[str, str]) -> str:
    """Return the address of the budget book for the stack's programs, empty for ledger.db of the state folder.

    A book that has entries stays where it is: a second, empty one would forget what was spent. A new one goes to
    PostgreSQL, and its address is written down for every command that uses this state folder.
    """
    if os.environ.get("WASP_LEDGER_URL"):
        return os.environ["WASP_LEDGER_URL"]
    file = ledger_address_file(settings.home)
    if settings.database != "postgresql":
        if file.exists():
            raise ConfigError(
                f"The budget book lies in PostgreSQL ({file} says where). Start with WASP_DATABASE=postgresql"
            )
        return ""
    if not file.exists() and _has_entries(settings):
        return ""
    address = url("psycopg2", "ledger", kept["ledger"], settings.postgres_port)
    write_text_whole(file, address + "\n", private=True)
    return address


def _has_entries(settings: Settings) -> bool:
    from flows.runtime.stores import open_ledger

    return (settings.home / "ledger.db").exists() and bool(open_ledger(settings.home).datasets())
