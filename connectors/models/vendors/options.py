"""Options of paid language models, checked before any call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar
from urllib.parse import urlsplit

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.registry import refuse_names, refuse_unknown
from connectors.models.vendors.pacing import Pace
from connectors.models.vendors.rate_limits import KINDS
from connectors.security.secrets import variable_of

MOST_CONCURRENT = 256

_RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0.0, 5.0),
    "top_p": (0.0, 1.0),
    "top_k": (1, 1_000_000),
    "max_tokens": (1, 10_000_000),
    "concurrency": (1, MOST_CONCURRENT),
    "timeout": (0.05, 3600.0),
    "tries": (1, 100),
    "several": (1, 100),
    "rpm": (0.1, 1e7),
    "tpm": (1.0, 1e10),
    "input_tpm": (1.0, 1e10),
    "output_tpm": (1.0, 1e10),
}
_WHOLE = {"top_k", "max_tokens", "concurrency", "tries", "several"}


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint: base URL ('' for the vendor's own) and the reference to its key."""

    url: str
    key: str

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


CACHE_WRITE_FACTOR = 1.25
"""Default price of tokens written to a cache, relative to `input`: what Anthropic charges for a cache of 5 minutes."""


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Dollars per million tokens, and the date of the price list.

    input, output: tokens read and written. cached: read from the vendor's cache; None as `input`. cache_write: written
    to it; None is 1.25 times `input`. reasoning: written before the text; None as `output`. batch: price of the batch
    API relative to these.
    """

    input: float = 0.0
    output: float = 0.0
    date: str = ""
    cached: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None
    batch: float = 0.5

    def dollars(
        self, tokens_in: int, tokens_out: int, cached: int = 0, cache_written: int = 0, reasoning: int = 0
    ) -> float:
        """Return the cost of tokens; `tokens_in` and `tokens_out` contain the others."""
        cached = min(cached, tokens_in)
        cache_written, reasoning = min(cache_written, tokens_in - cached), min(reasoning, tokens_out)
        read = (tokens_in - cached - cache_written) * self.input
        read += cached * (self.input if self.cached is None else self.cached) + cache_written * self._cache_write
        written = (tokens_out - reasoning) * self.output + reasoning * self._reasoning
        return (read + written) / 1e6

    def worst_dollars(self, tokens_in: int, tokens_out: int) -> float:
        """Return the highest cost of tokens of any kind."""
        read = max(self.input, self.cached or 0.0, self._cache_write)
        return (tokens_in * read + tokens_out * max(self.output, self._reasoning)) / 1e6

    @property
    def _cache_write(self) -> float:
        return CACHE_WRITE_FACTOR * self.input if self.cache_write is None else self.cache_write

    @property
    def _reasoning(self) -> float:
        return self.output if self.reasoning is None else self.reasoning


@dataclass(frozen=True, slots=True)
class VendorOptions:
    """Options of a configuration that both vendors share.

    temperature, top_p, top_k: decoding; None uses the endpoint's default. max_tokens: per completion; None uses the
    task's value. stop: texts that end a completion. seeded: send each prompt's seed if the API supports it. several:
    texts requested in one call for equal prompts. extra: further fields of the request body, as documented by the
    endpoint. response_format: JSON schema of an object that the endpoint enforces; the completion is then JSON.
    edition: any text; change it when the same model name gets new weights, to request all completions again.

    endpoint, endpoints: base URLs, or {url, key} each. key: reference to the key (see `secrets`). concurrency: maximum
    calls in flight per endpoint, up to 256. timeout: seconds per call. tries: maximum calls per prompt. pace: further
    settings of `Pace`. price: the fields of `TokenPrice`, dollars per million tokens. rpm, tpm, input_tpm, output_tpm:
    rate limits of each endpoint: requests, tokens, input and output tokens per minute; those in the headers of
    responses apply too.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seeded: bool = True
    several: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)
    response_format: Mapping[str, Any] = field(default_factory=dict)
    edition: str = ""
    endpoint: str = ""
    endpoints: tuple[Address, ...] = ()
    key: str = ""
    concurrency: int = 16
    timeout: float = 120.0
    tries: int = 6
    pace: Mapping[str, Any] = field(default_factory=dict)
    price: TokenPrice = field(default_factory=TokenPrice)
    rpm: float | None = None
    tpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None

    @property
    def rates(self) -> dict[str, float]:
        """Configured rate limits of each endpoint, per minute by kind (see `rate_limits.KINDS`)."""
        limits = (self.rpm, self.tpm, self.input_tpm, self.output_tpm)
        return {kind: limit for kind, limit in zip(KINDS, limits, strict=True) if limit is not None}

    @property
    def paced(self) -> Pace:
        """Pacing settings of each endpoint."""
        return Pace(**{**self.pace, "cap": self.concurrency, "tries": self.tries})

    @property
    def decoding(self) -> dict[str, Any]:
        """The settings besides prompt and model that affect a completion."""
        names = ("temperature", "top_p", "top_k", "max_tokens", "stop", "seeded", "several", "extra", "edition")
        formatted = {"response_format": dict(self.response_format)} if self.response_format else {}
        return {name: getattr(self, name) for name in names} | formatted


Options = TypeVar("Options", bound=VendorOptions)


def read_options(kind: type[Options], spec: ModelSpec, vendor_url: str, key: str) -> Options:
    """Check the options of a spec against a dataclass of options.

    `vendor_url` and `key` are the defaults. Raises ConfigError with the model, the invalid option and the nearest valid
    one.
    """
    where = f"Model '{spec.name}'"
    refuse_unknown(spec, [option.name for option in fields(kind)])
    options: dict[str, Any] = dict(spec.options)
    for name, value in options.items():
        _check_number(where, name, value)
    if isinstance(options.get("stop", ()), str):
        options["stop"] = (options["stop"],)
    options["stop"] = tuple(options.get("stop", ()))
    options["key"] = options.get("key") or key
    options["endpoints"] = _addresses(where, options, vendor_url)
    options["price"] = _price(where, options["price"]) if options.get("price") is not None else TokenPrice()
    pace = _mapping(where, "pace", options.get("pace", {}))
    refuse_names(f"{where}: pace has", pace, [option.name for option in fields(Pace)])
    _mapping(where, "extra", options.get("extra", {}))
    _check_schema(where, options)
    if not isinstance(options.get("seeded", True), bool):
        raise ConfigError(f"{where}: seeded must be true or false.")
    if not spec.model:
        raise ConfigError(f"{where}: set `model` to the vendor's name of the model.")
    return kind(**options)


def _check_schema(where: str, options: Mapping[str, Any]) -> None:
    schema = _mapping(where, "response_format", options.get("response_format", {}))
    if schema and schema.get("type") != "object":
        raise ConfigError(
            f"{where}: response_format must be a JSON schema of an object. Write "
            "{type: object, properties: {...}, required: [...], additionalProperties: false}."
        )
    if schema and options.get("several", 1) > 1:
        raise ConfigError(f"{where}: response_format asks for one object per call. Remove several.")


def _check_number(where: str, name: str, value: Any) -> None:
    if name not in _RANGES or value is None:
        return
    low, high = _RANGES[name]
    kinds = int if name in _WHOLE else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "whole number" if name in _WHOLE else "number"
        raise ConfigError(f"{where}: {name} must be a {kind} from {low:g} to {high:g}, got {value!r}.")


def _mapping(where: str, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {name} must be a mapping, got {type(value).__name__}.")
    return value


def _price(where: str, value: Any) -> TokenPrice:
    if isinstance(value, TokenPrice):
        return value
    refuse_names(f"{where}: price has", _mapping(where, "price", value), [option.name for option in fields(TokenPrice)])
    amounts: dict[str, float | None] = {}
    for name in ("input", "output", "cached", "cache_write", "reasoning", "batch"):
        amount = value.get(name)
        if amount is None and name not in ("input", "output"):
            continue
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < math.inf:
            raise ConfigError(f"{where}: price {name} must be dollars per million tokens, 0 or more, got {amount!r}.")
        amounts[name] = float(amount)
    return TokenPrice(date=str(value.get("date", "")), **amounts)  # type: ignore[arg-type]


def _addresses(where: str, options: Mapping[str, Any], vendor_url: str) -> tuple[Address, ...]:
    entries = options.get("endpoints") or ([options["endpoint"]] if options.get("endpoint") else [vendor_url])
    if options.get("endpoint") and options.get("endpoints"):
        raise ConfigError(f"{where}: set `endpoint` or `endpoints`, not both.")
    if isinstance(entries, str | Mapping) or not isinstance(entries, Sequence):
        raise ConfigError(f"{where}: endpoints must be a list.")
    return tuple(_address(where, entry, options["key"], vendor_url) for entry in entries)


def _address(where: str, entry: Any, key: str, vendor_url: str) -> Address:
    if isinstance(entry, Address):
        entry = {"url": entry.url, "key": entry.key}
    if isinstance(entry, str):
        entry = {"url": entry}
    refuse_names(f"{where}: endpoints has", _mapping(where, "endpoints", entry), ("url", "key"))
    url, own_key = str(entry.get("url") or vendor_url).rstrip("/"), entry.get("key") or key
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{where}: endpoint must be a URL such as http://localhost:8000/v1.")
    if parts.username or parts.password or parts.query:
        raise ConfigError(f"{where}: the URL of {parts.hostname} contains a user name, password or query. Use `key`.")
    variable_of(own_key, f"{where}: key")
    return Address(url, own_key)
