"""The view of a registered dataset: its location and columns, as its owner defines them."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pydantic import Field, field_validator

from connectors.interfaces.errors import ConfigError
from connectors.security.secret_patterns import PUBLIC
from flows.config.rows import DATASET_NAME, Rows


class DatasetView(Rows):
    """Location and columns of a registered dataset. Runs cannot change them."""

    path: str = Field(description="File, folder, database URL or env:NAME, as in a configuration; absolute.")
    person: str | None = Field(None, description="Column that identifies the person.")
    declared_rows: int | None = Field(None, ge=1, description="Declared, rounded number of rows; public.")
    separate: bool = Field(
        False,
        description="Other datasets of the same place, or with the same values of `person`, contain other people.",
    )

    hidden: ClassVar[dict[str, str]] = {
        "rows": "a run chooses its rows. Write private.rows in its configuration",
        "plain_text": "a run chooses the form of its texts. Write private.plain_text in its configuration",
    }

    def to_json(self) -> dict[str, Any]:
        """Return the view as the ledger stores it."""
        return self.model_dump(mode="json", exclude={"rows", "seed"})

    @field_validator("path")
    @classmethod
    def _no_password(cls, path: str) -> str:
        if re.match(PUBLIC, path) is None:
            raise ValueError("the address contains a password (not shown). Write env:NAME and set that variable")
        return path


def check_name(name: str) -> str:
    """Return the name of a dataset to register; ConfigError unless it is a plain word."""
    if re.fullmatch(DATASET_NAME, name) is None:
        raise ConfigError(
            f"NAME: '{name}' is not a name of a dataset. Use up to 100 letters, digits, dots, hyphens and underscores"
        )
    return name
