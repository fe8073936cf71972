"""Options of paid language models, checked before any call."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from connectors.interfaces.addresses import Host, KeyReference
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import ModelSpec
from connectors.models.base.options import CHECKED, Stops, read_options, refuse_names
from connectors.security.secrets import variable_of

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]

LOOK_SECONDS = 0.5
"""Longest time to look whether a host refuses connections; a refusal takes less than a round trip."""

CACHE_WRITE = 1.25
"""Price of tokens written to the vendor's cache per input token, if none is stated: Anthropic's for 5 minutes."""


TRIES = 6
"""Calls per prompt at most, by default."""


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint: base URL and the reference to its key; for messages the model's name in the run and there."""

    url: Host
    key: KeyReference
    plm: str = ""
    model: str = ""

    @property
    def host(self) -> str:
        """Host and port."""
        parts = urlsplit(self.url)
        if not parts.port:
            return str(parts.hostname)
        return f"{parts.hostname}:{parts.port}"

    def refuses_connection(self) -> bool:
        """Return True if the host refuses a connection now; False if that is not known at once."""
        parts = urlsplit(self.url)
        # Behind a proxy, a direct connection would prove nothing and can be forbidden.
        if parts.scheme in getproxies() and not proxy_bypass(self.host):
            return False
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
        try:
            socket.create_connection((str(parts.hostname), port), timeout=LOOK_SECONDS).close()
        except ConnectionRefusedError:
            return True
        except OSError:  # it may respond later
            return False
        return False

    def __str__(self) -> str:
        return f"Model '{self.plm}' at {self.host}"


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class TokenPrice:
    """Dollars per million tokens, and the date of the price list.

    input, output: tokens read and written. cached: read from the vendor's cache; None as `input`. cache_write: written
    to it; None as 1.25 times `input`.
    """

    input: Dollars
    output: Dollars
    date: str = ""
    cached: Dollars | None = None
    cache_write: Dollars | None = None

    def dollars(
        self, tokens_in: int, tokens_out: int, cached: int = 0, cache_written: int = 0
    ) -> float:
        """Return the cost of tokens; `tokens_in` contains the cached ones and those written to the cache."""
        cached = min(cached, tokens_in)
        cache_written = min(cache_written, tokens_in - cached)
        plain = tokens_in - cached - cache_written
        dollars_in = plain * self.input + cached * self._cached + cache_written * self._cache_write
        return (dollars_in + tokens_out * self.output) / 1e6

    def worst_dollars(self, tokens_in: int, tokens_out: int) -> float:
        """Return the highest cost of tokens of any kind."""
        return (
            tokens_in * max(self.input, self._cached, self._cache_write) + tokens_out * self.output
        ) / 1e6

    @property
    def _cached(self) -> float:
        if self.cached is None:
            return self.input
        return self.cached

    @property
    def _cache_write(self) -> float:
        if self.cache_write is None:
            return CACHE_WRITE * self.input
        return self.cache_write


@dataclass(frozen=True, slots=True, config=CHECKED)
class VendorOptions:
    """Options of a configuration that all vendors share.

    temperature, top_p, top_k: decoding; None uses the endpoint's default. max_tokens: per completion; None uses the
    task's value. stop: texts that end a completion. seeded: send each prompt's seed if the API supports it. system:
    the system message. extra: further fields of the request body, as documented by the endpoint, such as a JSON schema
    of the completion. edition: any text; change it when the same model name gets new weights, to request all
    completions again.

    endpoint, endpoints: base URLs, env:NAME of a variable with one, or {url, key} each. key: reference to the key (see
    `secrets`). concurrency: maximum calls in flight per endpoint. timeout: seconds per call. tries: maximum calls per
    prompt. price: see `TokenPrice`.
    """

    # A whole number stays one: the identity of stored completions contains the number as it was written.
    temperature: Annotated[int | float, Field(ge=0, le=5)] | None = None
    top_p: Annotated[int | float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    stop: Stops = ()
    seeded: bool = True
    system: str = ""
    extra: Json = field(default_factory=dict)
    edition: str = ""
    endpoint: Host = ""
    endpoints: tuple[Address, ...] = ()
    key: KeyReference = ""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 16
    timeout: Annotated[float, Field(ge=0.05, le=3600)] = 120.0
    tries: Annotated[int, Field(ge=1, le=100)] = TRIES
    price: TokenPrice = TokenPrice(0.0, 0.0)

    @property
    def decoding(self) -> Json:
        """The settings besides prompt and model that affect a completion."""
        names = (
            "temperature",
            "top_p",
            "top_k",
            "max_tokens",
            "stop",
            "seeded",
            "system",
            "extra",
            "edition",
        )
        # Completions that earlier versions stored have `several` in their identity.
        return {name: getattr(self, name) for name in names} | {"several": 1}

    def body(self, stop_field: str, **fields: object) -> Json:
        """Return the fields of a request's body that are set: sampling, stops, `fields`, and `extra`, which wins."""
        sampling = {name: getattr(self, name) for name in ("temperature", "top_p", "top_k")}
        settings = {**sampling, stop_field: list(self.stop) or None, **fields, **self.extra}
        return {name: value for name, value in settings.items() if value is not None}


Options = TypeVar("Options", bound=VendorOptions)


def choices_of(most: int, tries: int, extra: Mapping[str, object]) -> int:
    """Return how many completions one request may have, of at most `most`.

    One, if `extra` sets their number itself; or if a prompt has one call only, because one that gets no text from a
    request for several needs another.
    """
    if tries < 2 or {"n", "best_of"} & extra.keys():
        return 1
    return most


def read_vendor_options(kind: type[Options], spec: ModelSpec, vendor_url: str, key: str) -> Options:
    """Check the options of a spec against a dataclass of options.

    `vendor_url` and `key` are the defaults. Raises ConfigError with the model, the invalid option and a correction.
    """
    key = spec.options.get("key") or key
    return read_options(kind, spec, key=key, endpoints=_addresses(spec, key, vendor_url))


def _addresses(spec: ModelSpec, key: str, vendor_url: str) -> tuple[Address, ...]:
    where = f"Model '{spec.name}'"
    endpoint = spec.options.get("endpoint")
    endpoints = spec.options.get("endpoints")
    if endpoint and endpoints:
        raise ConfigError(f"{where}: set `endpoint` or `endpoints`, not both.")
    entries = endpoints or [endpoint or vendor_url]
    if isinstance(entries, str | Mapping) or not isinstance(entries, Sequence):
        raise ConfigError(f"{where}: endpoints must be a list.")
    return tuple(
        Address(*_address(where, entry, key, vendor_url), spec.name, spec.model)
        for entry in entries
    )


def _read_url(where: str, url: str) -> str:
    """Return a URL; for `env:NAME` the variable's value."""
    kind, _, variable = url.partition(":")
    if kind != "env":
        return url
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ConfigError(
            f"{where}: endpoint is {url}, but the environment variable {variable} is not set. Set it to the URL of a "
            "server of this model, such as http://localhost:8000/v1."
        )
    return value


def _address(where: str, entry: object, key: str, vendor_url: str) -> tuple[str, str]:
    if isinstance(entry, str):
        entry = {"url": entry}
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where}: endpoints must be URLs, or a mapping with url and key each.")
    refuse_names(f"{where}: endpoints has", entry, ("url", "key"))
    url = _read_url(where, str(entry.get("url") or vendor_url)).rstrip("/")
    own_key = entry.get("key") or key
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{where}: endpoint must be a URL such as http://localhost:8000/v1.")
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            f"{where}: the URL of {parts.hostname} contains a user name, password or query. Use `key`."
        )
    variable_of(own_key, f"{where}: key")
    return url, own_key
