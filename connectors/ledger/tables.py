"""Tables of the privacy ledger, on SQLAlchemy core.

`ledger_entries` contains all authoritative data. `ledger_datasets` contains the head of each chain; transactions lock
its rows. The other tables are look-ups.
"""

from dataclasses import fields

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
NUMBERS = ("sensitivity", "noise_scale", "epsilon", "delta")
"""Columns of an entry that can be empty: not each entry is a release, and without a cap or a plan there is no total."""
# Names of tables and columns are those of the first version: under another name, a spent ledger would look empty.
METADATA = MetaData()


# Never NULL, which equals nothing: SQLite accepts it even in a primary key, and a row could exist twice.
def _text(name: str, key: bool = False) -> Column[str]:
    return Column(name, Text, primary_key=key, nullable=False)


def _number(name: str, key: bool = False) -> Column[int]:
    return Column(name, Integer, primary_key=key, autoincrement=False, nullable=False)


def _entry_column(name: str) -> Column[str] | Column[float]:
    # 53 bits: with fewer, a database would round a number that the hash of the entry covers.
    if name in NUMBERS:
        return Column(name, Float(53))
    return _text(name)


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
        _entry_column(field.name)
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
