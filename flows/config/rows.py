"""Typed parameters of rows: where they lie, and which are taken."""

from __future__ import annotations

from functools import partial
from operator import eq, is_
from typing import Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from connectors.rows.queries import READING, check_query
from connectors.security.secret_patterns import PUBLIC
from flows.config.form import Strict, rule


class Rows(Strict):
    """Where rows lie and which columns to take."""

    path: str = Field(
        description="File or folder (csv, jsonl, parquet; local, s3://, gs://), database URL, builtin:NAME/FILE, or "
        "env:NAME for an address that a variable holds, because it has a password in it.",
        json_schema_extra={"pattern": PUBLIC},
    )
    text: str = Field("text", description="Column of the text.")
    label: str = Field("label", description="Column of the label.")
    rows: int | None = Field(None, ge=1, description="How many rows to take; empty: all.")
    seed: int = Field(0, ge=0, description="Chooses which rows are taken.")
    query: str | None = Field(
        None,
        json_schema_extra={"anyOf": [{"type": "string", "pattern": READING}, {"type": "null"}]},
        description="SQL query when the path is a database URL: one SELECT, or WITH that ends in a SELECT. The "
        "database is opened read-only.",
    )
    classes: dict[str, list[str]] | None = Field(
        None,
        exclude_if=partial(is_, None),
        description="Where the label is a code: for each class of the task the beginnings of codes that are of it, for "
        "example ICD chapters. The longest beginning decides; a row of no class is left out.",
    )

    rules = rule(
        "path",
        {"type": "string", "pattern": r"^(sqlite|postgresql|mysql|mariadb|oracle|mssql)(\+\w+)?://"},
        {"query": {"type": "string", "minLength": 1}},
    )

    @field_validator("query")
    @classmethod
    def _reads_alone(cls, query: str | None, info: ValidationInfo) -> str | None:
        if query is not None:
            check_query(query, info.data.get("path", ""))
        return query

    @field_validator("classes")
    @classmethod
    def _tells_classes_apart(cls, classes: dict[str, list[str]] | None) -> dict[str, list[str]] | None:
        beginnings = [one for several in (classes or {}).values() for one in several]
        twice = sorted({one for one in beginnings if beginnings.count(one) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} stands for two classes; a code has one")
        if classes is not None and not all(several and all(several) for several in classes.values()):
            raise ValueError("give each class at least one beginning of a code, of one letter or more")
        return classes


class PrivateRows(Rows):
    """The private rows. They are opened in the private zone alone; this form holds their place only."""

    of: int | None = Field(
        None,
        ge=1,
        description="Declared, rounded size of the source when `rows` is set: each row is then taken by a draw of its "
        "own with chance rows/of. Empty: exactly `rows` are taken, and noise is sqrt(2) larger, because removing one "
        "row lets another in.",
    )
    rows_are_public: bool = Field(
        False,
        exclude_if=partial(eq, False),
        description="The rows are public, as in an experiment on a published data set: exactly `rows` are drawn, each "
        "class in its proportion, by this seed and the run's together. The promise is then about the drawn rows. Never "
        "for private data.",
    )
    person: str | None = Field(
        None, description="Column that says whose row it is; needed when privacy.protects is person."
    )
    name: str | None = Field(
        None, description="Name of the dataset in the budget book; empty: made of folder and file name."
    )

    group: str | None = Field(
        None,
        description="Name of the group of datasets that hold the same people, this one among them: what is released "
        "from one is charged to all, for good. Empty: the group that the budget book knows, if any.",
    )

    rules = (
        Rows.rules
        | rule("of", {"type": "integer"}, {"rows": {"type": "integer"}})
        | rule("rows_are_public", {"const": True}, {"rows": {"type": "integer"}})
    )

    @model_validator(mode="after")
    def _sample_fits(self) -> Self:
        if self.of is not None and (self.rows is None or self.rows > self.of):
            raise ValueError(f"of ({self.of}) is the size of the source; set rows to at most that")
        if self.rows_are_public and self.rows is None:
            raise ValueError("rows_are_public draws a number of rows; set rows to that number, or leave it out")
        if self.rows_are_public and self.of is not None:
            raise ValueError(
                f"of ({self.of}) is for private rows that are drawn one by one; leave it out of public rows"
            )
        return self

    @property
    def public_rows(self) -> str:
        """What is said of rows that are public, in plan and report; empty where they are private."""
        if not self.rows_are_public:
            return ""
        return (
            f"rows are public: exactly {self.rows} are drawn, each class in its proportion, and the promise is about "
            "the drawn rows"
        )

    @property
    def takes_exactly(self) -> bool:
        """Whether a fixed number of rows is taken, so that one row's absence lets another in."""
        return self.rows is not None and self.of is None and not self.rows_are_public
