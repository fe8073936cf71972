"""Tables of the privacy ledger, on SQLAlchemy core.

`ledger_entries` contains all authoritative data. `ledger_datasets` contains the head of each chain; transactions lock
its rows. The other tables are look-ups and seals that `verify` compares with the entries.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, type_coerce
from sqlalchemy.types import NullType

SCHEMA = 3
"""Version 1 has no groups, version 2 no marks, no divided caps and no seals.

An older program would count too little or trade the parts of a cap, so each must refuse later versions.
"""

METADATA = MetaData()

BOOK = Table(
    "ledger_book",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)

DATASETS = Table(
    "ledger_datasets",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("entries", Integer, nullable=False),
    Column("head", Text, nullable=False),
)

NAMES = Table(
    "ledger_names",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
)

FINGERPRINTS = Table(
    "ledger_fingerprints",
    METADATA,
    Column("fingerprint", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
)

RECORDS = Table(
    "ledger_records",
    METADATA,
    Column("record", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Index("ledger_records_of", "dataset", "number"),
)

MARKS = Table(
    "ledger_marks",
    METADATA,
    Column("mark", Text, primary_key=True),
    Column("dataset", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Index("ledger_marks_of", "dataset", "number"),
)

ENTRIES = Table(
    "ledger_entries",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("flow", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("step_key", Text, nullable=False),
    Column("mechanism", Text, nullable=False),
    Column("sensitivity", Float(53)),
    Column("sensitivity_reason", Text, nullable=False),
    Column("noise_scale", Float(53)),
    Column("protects", Text, nullable=False),
    Column("adjacency", Text, nullable=False),
    Column("event_json", Text, nullable=False),
    Column("detail_json", Text, nullable=False),
    Column("epsilon", Float(53)),
    Column("delta", Float(53)),
    Column("output_hash", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

OUTPUTS = Table(
    "ledger_outputs",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("step_key", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("output", LargeBinary, nullable=False),
)

SEALS = Table(
    "ledger_seals",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("seal", Text, nullable=False),
)
"""HMAC of each entry's hash under the ledger key; without that key nobody can continue or rewrite a chain."""

# The driver's value: SQLAlchemy's own conversion fails on values that were changed by hand.
RAW_OUTPUT = type_coerce(OUTPUTS.c.output, NullType()).label("output")
