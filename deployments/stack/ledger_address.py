"""Chooses the address of the privacy ledger: one per state folder."""

from __future__ import annotations

import os
from collections.abc import Mapping

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError
from deployments.stack.postgres import url
from deployments.stack.settings import Settings
from flows.runtime.state_folder import ledger_address_file


def choose_ledger_address(settings: Settings, passwords: Mapping[str, str]) -> str:
    """Return the address of the privacy ledger; empty for the folder's ledger.db.

    A ledger with entries is never moved: a second, empty one would lose the spent budget. A new ledger is created in
    PostgreSQL, and its address is stored for every command that uses this state folder.
    """
    if os.environ.get("WASP_LEDGER_URL"):
        return os.environ["WASP_LEDGER_URL"]
    file = ledger_address_file(settings.home)
    if settings.database != "postgresql":
        if file.exists():
            raise ConfigError(
                f"The privacy ledger is in PostgreSQL (address in {file}). Start with WASP_DATABASE=postgresql"
            )
        return ""
    if not file.exists() and _has_entries(settings):
        return ""
    address = url("psycopg2", "ledger", passwords["ledger"], settings.postgres_port)
    write_text_whole(file, address + "\n", private=True)
    return address


def _has_entries(settings: Settings) -> bool:
    from flows.runtime.stores import open_ledger

    return (settings.home / "ledger.db").exists() and bool(open_ledger(settings.home).datasets())
