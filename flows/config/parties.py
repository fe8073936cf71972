"""Typed parameters of a federation: who the parties are, how they are reached, what holds when some fail or collude."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from connectors.security.secret_patterns import PUBLIC
from flows.config.form import Strict


class PartiesChoice(Strict):
    """Several parties that hold the private rows; they vote where they are, and their sum alone is seen."""

    registry: str = Field(
        description="File of the parties' public keys, a line for each: NAME: ed25519:KEY (wasp party-keys prints it)."
    )
    only: list[str] | None = Field(
        None, min_length=2, description="Names of the parties that take part; empty: all of the registry."
    )
    minimum: int | None = Field(
        None,
        ge=2,
        description="Fewest parties that may form a sum when others fail; noise is made for so many. Empty: all.",
    )
    colluding: int = Field(
        0,
        ge=0,
        description="Parties that may tell theirs, or add no noise, without harm to the promise; each other's share "
        "grows for it. From 1 on a party is also protected from every other.",
    )
    exchange: str = Field(
        description="Where coordinator and parties leave messages: a shared folder, s3://BUCKET/PREFIX, gs://, abfs://.",
        json_schema_extra={"pattern": PUBLIC},
    )
    embeddings: Literal["float32", "float16", "int8"] = Field(
        "float32", description="How vectors of synthetic texts travel; fewer bytes move a few votes."
    )
    minutes: float = Field(10.0, gt=0, le=1440, description="How long each party is waited for at each stage.")
    name: str = Field(
        "federation", min_length=1, description="What all parties' rows together are called in the budget book here."
    )

    @model_validator(mode="after")
    def _somebody_is_left(self) -> Self:
        if self.minimum is not None and self.colluding >= self.minimum:
            raise ValueError(f"colluding ({self.colluding}) must be below minimum ({self.minimum})")
        return self
