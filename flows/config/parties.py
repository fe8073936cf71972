"""Typed parameters of a federation: parties, exchange, failures and collusion."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from connectors.security.secret_patterns import PUBLIC
from flows.config.form import Strict


class PartiesChoice(Strict):
    """Parties that hold private data and vote locally; only sums are visible."""

    registry: str = Field(
        description="File of the parties' public keys, one line each: NAME: ed25519:KEY (wasp party prints it), and "
        "the coordinator's (wasp run prints it)."
    )
    minimum: int | None = Field(
        None,
        ge=2,
        description="Minimum number of parties in a sum if others fail; sets the noise per party. Empty: all.",
    )
    colluding: int = Field(
        1,
        ge=0,
        description="Number of parties that may reveal their noise or add none without breaking the guarantee; the "
        "others add more. From 1 on, parties are also protected from each other, because each reads the sums.",
    )
    exchange: str = Field(
        description="Location of messages between parties: a shared folder, s3://BUCKET/PREFIX, gs:// or abfs://.",
        json_schema_extra={"pattern": PUBLIC},
    )
    embeddings: Literal["float32", "float16"] = Field(
        "float32",
        description="Format of the vectors of synthetic texts in messages; float16 is half as large.",
    )
    minutes: float = Field(10.0, gt=0, le=1440, description="Timeout per party and stage, in minutes.")
    name: str = Field(
        "federation", min_length=1, description="Name of the joint dataset of all parties in the privacy ledger."
    )

    @model_validator(mode="after")
    def _check_minimum(self) -> Self:
        if self.minimum is not None and self.colluding >= self.minimum:
            raise ValueError(f"colluding ({self.colluding}) must be below minimum ({self.minimum})")
        return self
