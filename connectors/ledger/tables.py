"""Tables of the privacy ledger, on SQLAlchemy core.

`ledger_entries` contains all authoritative data. `ledger_datasets` contains the head of each chain; transactions lock
its rows. The other tables are look-ups.
"""

from dataclasses import fields
from typing import Any

from sqlalchemy import (
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    type_coerce,
)
from sqlalchemy.types import NullType

from connectors.ledger.state import Entry

SCHEMA = 4
"""Version 1 has no groups, version 2 no marks and no divided caps, version 3 seals (the ignored table `ledger_seals`).

An older program would count too little, or miss its seals, so each must refuse later versions.
"""
METADATA = MetaData()


def _text(name: str, key: bool = False) -> Column[Any]:
    return Column(name, Text, primary_key=key, nullable=False)


def _number(name: str, key: bool = False) -> Column[Any]:
    return Column(name, Integer, primary_key=key, autoincrement=False, nullable=False)


BOOK = Table("ledger_book", METADATA, _number("id", key=True), _number("version"))
DATASETS = Table(
    "ledger_datasets", METADATA, _text("dataset", key=True), _number("entries"), _text("head")
)
NAMES = Table("ledger_names", METADATA, _text("name", key=True), _text("dataset"))
FINGERPRINTS = Table(
    "ledger_fingerprints", METADATA, _text("fingerprint", key=True), _text("dataset")
)
RECORDS = Table(
    "ledger_records",
    METADATA,
    _text("record", key=True),
    _text("dataset"),
    _number("number"),
    Index("ledger_records_of", "dataset", "number"),
)
MARKS = Table(
    "ledger_marks",
    METADATA,
    _text("mark", key=True),
    _text("dataset", key=True),
    _text("kind"),
    _number("number"),
    Index("ledger_marks_of", "dataset", "number"),
)
ENTRIES = Table(
    "ledger_entries",
    METADATA,
    _text("dataset", key=True),
    _number("number", key=True),
    *(
        _text(field.name) if field.type == "str" else Column(field.name, Float(53))
        for field in fields(Entry)
        if field.name not in ("dataset", "number")
    ),
)
OUTPUTS = Table(
    "ledger_outputs",
    METADATA,
    _text("dataset", key=True),
    _text("step_key", key=True),
    _number("number"),
    Column("output", LargeBinary, nullable=False),
)
# The driver's value: SQLAlchemy's own conversion fails on values that were changed by hand.
RAW_OUTPUT = type_coerce(OUTPUTS.c.output, NullType()).label("output")
