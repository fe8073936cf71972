"""Typed parameters of the models that a run uses: language models (PLMs) and the embedder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from operator import eq
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from connectors.interfaces.money import format_dollars
from connectors.security.secret_patterns import REFERENCE
from flows.config.form import Schema, Strict, connectors, rule

PAID = ("anthropic", "openai")
"""Connectors of models behind an address: their calls may cost money."""


class Price(Strict):
    """Dollars per million tokens, and when the vendor asked so much."""

    input: float = Field(ge=0, description="Dollars per million tokens read.")
    output: float = Field(ge=0, description="Dollars per million tokens written.")
    date: str = Field("", description="Date of the price list.")

    @field_validator("date", mode="before")
    @classmethod
    def _date_as_text(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, date) else value  # YAML reads a bare date as one


class Plm(Strict):
    """One language model (PLM) that writes texts."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="Name in tables and folders; each PLM its own."
    )
    connector: str = Field(
        "ngram",
        json_schema_extra=connectors,
        description="How it is reached: ngram (embedded), recorded (a Parquet file), hf (local transformers), openai "
        "(and every compatible server), anthropic.",
    )
    model: str = Field("", description="Model of the connector: a corpus name, a file, a model id.")
    temperature: float | None = Field(None, ge=0, le=5, description="Decoding temperature; empty: the connector's.")
    top_p: float | None = Field(None, gt=0, le=1, description="Nucleus sampling; empty: the connector's.")
    top_k: int | None = Field(None, ge=1, description="Top-k sampling; empty: the connector's.")
    max_tokens: int | None = Field(None, ge=1, description="Longest answer in tokens; empty: as the task says.")
    endpoint: str | None = Field(None, description="Base URL of a compatible server; empty: the vendor's own.")
    key: str | None = Field(
        None,
        json_schema_extra={"pattern": REFERENCE},
        description="Where the key lies, never the key: env:NAME, prefect:BLOCK for a Secret block, or none.",
    )
    concurrency: int | None = Field(None, ge=1, le=256, description="Most calls in flight per endpoint.")
    batch_api: bool = Field(
        False, description="Ask through the vendor's batch API (openai, anthropic): half the price, within a day."
    )
    batch_seconds: float = Field(30.0, gt=0, le=3600, description="Seconds between two looks at an open batch.")
    price: Price | None = Field(
        None,
        description="What tokens cost; without it dollars count as 0, and limits.max_dollars is refused. A free server "
        "costs 0 and 0.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Further options of the connector.")

    rules = rule(
        "connector",
        {"enum": ["anthropic", "fill_mask", "hf", "ngram", "openai", "recorded"]},
        {"model": {"minLength": 1}},
    ) | rule("batch_api", {"const": True}, {"connector": {"enum": ["openai", "anthropic"]}})

    @model_validator(mode="after")
    def _price_is_whole(self) -> Self:
        try:
            _ = self.stated_price
        except ValidationError:
            raise ValueError(
                f"options.price: {self.options['price']!r} is no price. Write {{input: ..., output: ...}}, dollars per "
                "million tokens"
            ) from None
        return self

    @property
    def stated_price(self) -> Price | None:
        """The price of a paid model, from the field or from the options."""
        stated = self.options.get("price") if self.connector in PAID else None
        if self.price is not None or stated is None:
            return self.price
        return Price.model_validate(stated)

    @property
    def connector_options(self) -> dict[str, Any]:
        """What the connector gets: the options, with the fields above that are set."""
        aside = {"name", "connector", "model", "batch_api", "batch_seconds", "options"}
        named = self.model_dump(mode="json", exclude=aside, exclude_none=True)
        return {**self.options, **named}


def refuse_unpriced(max_dollars: float | None, models: Sequence[Plm]) -> None:
    """Raise ValueError where a cap on money would not hold: a paid model has no price, so its calls count as free."""
    unpriced = [plm.name for plm in models if plm.connector in PAID and plm.stated_price is None]
    if max_dollars is not None and unpriced:
        raise ValueError(
            f"limits.max_dollars: the cap of {format_dollars(max_dollars)} dollars cannot hold without the price of "
            f"{', '.join(map(repr, unpriced))}. Set price of each, for example price={{input: 0.15, output: 0.6}} in "
            "dollars per million tokens (zeros for a free server), or remove the cap."
        )


_PRICED: Schema = {
    "if": {
        "properties": {"connector": {"enum": list(PAID)}, "options": {"not": {"required": ["price"]}}},
        "required": ["connector"],
    },
    "then": {"required": ["price"], "properties": {"price": {"type": "object"}}},
}
_CAPPED: Schema = {"properties": {"max_dollars": {"type": "number"}}, "required": ["max_dollars"]}

CAP_NEEDS_PRICES: dict[str, Schema] = {
    "limits": {
        "if": {"properties": {"limits": _CAPPED, "plms_used": {"type": "null"}}, "required": ["limits"]},
        "then": {"properties": {"plms": {"items": _PRICED}}},
    }
}
"""The rule of `refuse_unpriced` for the form; models that `plms_used` leaves out need no price."""


class EmbedderChoice(Strict):
    """The model that turns texts into vectors (phi in the paper)."""

    connector: Literal["sentence_transformers", "word_vectors", "hashing"] = Field(
        "sentence_transformers",
        description="sentence_transformers needs the extra 'local'; word_vectors (GloVe, fastText as text) and hashing "
        "need nothing.",
    )
    model: str = Field(
        "embedded",
        description="Hub id, folder, or 'embedded' (the package of the extra 'demo'); word_vectors: their file or "
        "folder.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        exclude_if=partial(eq, "float32"),
        description="bfloat16: faster by half where the processor has it, other vectors (about 1 % of the votes go to "
        "other texts). For sentence_transformers.",
    )
    backend: Literal["auto", "torch", "onednn"] = Field(
        "auto",
        exclude_if=partial(eq, "auto"),
        description="What computes the same vectors on a processor. auto: oneDNN, twice as fast on some, where it "
        "equals torch; else torch. For sentence_transformers.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Further options of the embedder.")

    rules = rule("precision", {"const": "bfloat16"}, {"connector": {"const": "sentence_transformers"}}) | rule(
        "backend", {"enum": ["torch", "onednn"]}, {"connector": {"const": "sentence_transformers"}}
    )

    @field_validator("precision", mode="before")
    @classmethod
    def _moves_few_votes(cls, value: Any) -> Any:
        if value in ("int8", "uint8"):
            raise ValueError(
                f"{value} is refused: its vectors look alike (cosine 0.99), yet 11 to 16 % of the votes go to other "
                "texts; write float32 or bfloat16 (about 1 %)"
            )
        return value

    @property
    def connector_options(self) -> dict[str, Any]:
        """What the connector gets: the options, with the fields above that are set."""
        return {**self.options, **self.model_dump(include={"precision", "backend"})}
