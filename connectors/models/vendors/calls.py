"""Calls of paid language models through the vendors' SDKs: the part that all vendors share."""

import asyncio
import importlib
import importlib.util
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import quote

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError, MissingPackageError, UncheckedError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import Completion, Keep, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.traffic import Traffic
from connectors.models.base.claims import Claim
from connectors.models.base.cost_limit import CostBudget
from connectors.models.vendors.dispatch import Client, Dispatch, run_here
from connectors.models.vendors.endpoint_limiter import EndpointLimiter
from connectors.models.vendors.errors import Failure
from connectors.models.vendors.options import (
    Address,
    VendorOptions,
    choices_of,
    read_vendor_options,
)
from connectors.models.vendors.prompt_sizes import PromptSizes
from connectors.models.vendors.responses import (
    Output,
    completions_of,
    count_of,
    limit_of,
    request_bytes,
)
from connectors.security.secrets import NO_KEY, is_block, read_secret

Options = TypeVar("Options", bound=VendorOptions)

VERSION = 1
"""Part of `identity`; raise it whenever the same prompt would be sent in another form.

A request for several completions has the same form: a completion may be one of several of its request.
"""

CONNECT_SECONDS = 10.0
"""Longest time to connect. Shorter than a call's, because only a call that was sent may have been billed."""

LIST_SECONDS = 10.0
"""Longest time to wait for a vendor's list of models."""
MISSING = 404
"""HTTP status of a model that a vendor does not list."""

_log = logging.getLogger(__name__)


class VendorModel(ABC, Generic[Options]):
    """A language model behind an API; a subclass opens clients of its SDK and sends requests.

    The extra `extra` installs the package `sdk`. `url` and `key`: the vendor's address and the reference to its key;
    `path`: that of requests below the address; `models_path`: that of the list of models, empty without one;
    `most_choices`: completions that the API returns for one request.

    Prompts are sent over all endpoints, in an event loop of a helper thread; each completion is passed on when it
    arrives. Threads can call `complete` concurrently and share the endpoints' limiters. Contains no key: keys are
    read for each call.
    """

    connector: ClassVar[str]
    sdk: ClassVar[str]
    extra: ClassVar[str] = "api"
    url: ClassVar[str]
    key: ClassVar[str]
    path: str = ""
    models_path: ClassVar[str] = ""
    most_choices: ClassVar[int] = 1
    options_type: ClassVar[type[VendorOptions]] = VendorOptions
    model_type: ClassVar[object] = str

    def __init__(self, name: str, model: str, options: Options) -> None:
        self.name = name
        self.model = model
        self.options = options
        self.others_served: list[str] = []
        self.prompt_sizes = PromptSizes()
        # Lowered for a server that returns fewer.
        self.max_choices = choices_of(self.most_choices, options.tries, options.extra)
        self._noticed: set[str] = set()
        self.limiters = [
            EndpointLimiter(address, options.concurrency) for address in options.endpoints
        ]

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""
        return cls(spec.name, spec.model, cls.options_of(spec))

    @classmethod
    def options_of(cls, spec: ModelSpec) -> Any:
        """Return the typed options of a configuration; ConfigError if one is invalid."""
        vendor = cls.vendor_of(spec.model)
        return read_vendor_options(cls.options_type, spec, vendor.url, vendor.key)

    @classmethod
    def vendor_of(cls, model: str) -> Address:  # noqa: ARG003  (litellm has a vendor for each model)
        """Return the vendor's own address of a model, with the reference to its own key."""
        return Address(cls.url, cls.key)

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check options, packages and keys, without calls; ConfigError.

        A key in a Prefect Secret block is read only when a run starts.
        """
        model = cls.from_spec(spec)
        for package in (cls.sdk, "aiohttp"):
            if importlib.util.find_spec(package) is None:
                raise MissingPackageError(package, cls.extra)
        for address in model.options.endpoints:
            if not is_block(address.key):
                model.secret(address)

    @classmethod
    def check_listed(cls, spec: ModelSpec) -> None:
        """Check that the vendor lists the model, by one free request; an endpoint of another host is not asked.

        Raises ConfigError if it does not, UncheckedError if that is unknown.
        """
        if not cls.models_path or not all(map(importlib.util.find_spec, (cls.sdk, "aiohttp"))):
            return
        model = cls.from_spec(spec)
        url = cls.vendor_of(spec.model).url
        for address in model.options.endpoints:
            if address.url == url:
                model.require_listed(address)

    def require_listed(self, address: Address) -> None:
        """Ask an address for this model; errors as `check_listed`."""
        where = f"Model '{self.name}'"
        try:
            self.secret(address)
        except ConfigError:
            # A Secret block is read when the run starts; `check_spec` reports a missing variable.
            if not is_block(address.key):
                return
            raise UncheckedError(
                f"{where}: unknown whether {address.host} lists '{self.model}' (key in a Secret block)"
            ) from None
        try:
            # In a thread: an event loop, such as a notebook's, may run in this one.
            with ThreadPoolExecutor(1, "wasp-list") as thread:
                thread.submit(asyncio.run, self._retrieve(address)).result()
            return
        except TimeoutError:
            status = 0
        except self.failures as error:
            status = self.read_failure(error).status
        if status == MISSING:
            raise ConfigError(
                f"{where}: {address.host} does not list '{self.model}' (any more, or for this key). Name a model that "
                "it offers."
            )
        reason = "unreachable"
        if status:
            reason = f"HTTP {status}"
        raise UncheckedError(
            f"{where}: unknown whether {address.host} lists '{self.model}' ({reason})"
        )

    async def _retrieve(self, address: Address) -> None:
        client = self.open_client(address)
        path = f"{self.models_path}/{quote(self.model, safe='')}"
        try:
            await asyncio.wait_for(client.get(path, cast_to=object), LIST_SECONDS)
        finally:
            await client.close()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.model, self.options)

    @property
    def identity(self) -> str:
        """Connector, model and decoding; not addresses and limits, which change no text."""
        settings = {
            "connector": self.connector,
            "version": VERSION,
            "model": self.model,
            **self.options.decoding,
        }
        return canonical(settings)

    @property
    def is_at_vendor(self) -> bool:
        """True if prompts go to the vendor's own address, which bills each call."""
        url = self.vendor_of(self.model).url
        return any(address.url == url for address in self.options.endpoints)

    @property
    def destinations(self) -> tuple[str, ...]:
        """The hosts that receive prompts."""
        return tuple(dict.fromkeys(address.host for address in self.options.endpoints))

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; call `keep` at once, in the thread of the calls.

        A prompt without tries left has finish reason `error`. Raises ConfigError for a missing key before any call,
        FinalError if every endpoint refuses permanently, TemporaryError if none is reachable now.
        """
        completions: dict[int, Completion] = {}

        def receive(position: int, completion: Completion) -> None:
            completions[position] = completion
            keep(position, completion)

        self.complete_claimed(prompts, receive, list, None)
        return [completions[position] for position in range(len(prompts))]

    def complete_claimed(
        self, prompts: Sequence[Prompt], keep: Keep, claim: Claim, cost_budget: CostBudget | None
    ) -> None:
        """Request the prompts that `claim` returns, like `complete`, and pay each call from `cost_budget`.

        Raises MoneyError, after all calls in flight, if its limit allows no further call. If the process must stop, no
        call starts, and the calls in flight are waited for; then raises ProcessEnds, or KeyboardInterrupt in the main
        thread.
        """
        if prompts:
            run_here(Dispatch(self, prompts, keep, claim, cost_budget).run())

    def traffic(self) -> dict[str, Traffic]:
        """Return the calls so far by host."""
        traffic: dict[str, Traffic] = {}
        for limiter in self.limiters:
            host = limiter.address.host
            traffic[host] = traffic.get(host, Traffic()) + replace(
                limiter.traffic, served=self.others_served
            )
        return traffic

    def in_flight(self) -> tuple[int, int]:
        """Return the calls in flight now, and their present limit."""
        in_flight = sum(limiter.in_flight for limiter in self.limiters)
        limit = sum(limiter.limit for limiter in self.limiters)
        return in_flight, limit

    def check_answer(
        self, prompt: Prompt, completion: Completion, limiter: EndpointLimiter
    ) -> None:
        """Count the answers of another model and those to a cut prompt; warn once about each kind."""
        if self.is_other(completion.served_model):
            limiter.count("from_others")
            if completion.served_model not in self.others_served:
                self.others_served.append(completion.served_model)
                message = "Model '%s': requested '%s', but the server used '%s'. Check `model`."
                _log.warning(message, self.name, self.model, completion.served_model)
        size = len(f"{self.options.system}{prompt.text}".encode("utf-8", "surrogatepass"))
        if not completion.estimated and self.prompt_sizes.is_short(size, completion.tokens_in):
            limiter.count("short_prompts")
            if self.prompt_sizes.is_first_warning():
                message = (
                    "Model '%s': the server reports %d tokens for a prompt of %d bytes, so it probably cuts prompts, "
                    "and examples do not reach the model. Raise the context window of the server."
                )
                _log.warning(message, self.name, completion.tokens_in, size)

    def is_other(self, served: str) -> bool:
        """Return whether another model answers than configured; dates and vendors may be added to its name."""
        names = {served.lower().rsplit("/", 1)[-1], self.model.lower().rsplit("/", 1)[-1]}
        shorter = min(names, key=len)
        longer = max(names, key=len)
        return bool(served) and not longer.startswith(shorter)

    def notice_unconnected(self, address: Address, problem: str) -> None:
        """Warn at the first call of a host that does not connect: giving up takes two minutes."""
        if address.host not in self._noticed:
            self._noticed.add(address.host)
            _log.warning(
                "Model '%s': %s %s; trying for two minutes", self.name, address.host, problem
            )

    def refused_hosts(self) -> list[str]:
        """Return the hosts, other than the vendor's own, that refuse a connection now.

        Sends nothing. A host behind a proxy, or one that does not respond at once, is not in the list.
        """
        vendor = self.vendor_of(self.model).url
        own = [address for address in self.options.endpoints if address.url != vendor]
        return list(dict.fromkeys(address.host for address in own if address.refuses_connection()))

    def worst_dollars(self, body: Json) -> float:
        """Return the maximum cost of one call with this body.

        No token is shorter than a byte; a hundred more allow for roles and formatting. Each choice has the whole limit.
        """
        written = limit_of(body) * max(1, count_of(body.get("n")))
        return self.options.price.worst_dollars(request_bytes(body) + 100, written)

    def load_sdk(self) -> ModuleType:
        """Return the module of the SDK; MissingPackageError if it is not installed."""
        try:
            return importlib.import_module(self.sdk)
        except ImportError as error:
            raise MissingPackageError(self.sdk, self.extra) from error

    def client_arguments(self, address: Address) -> Json:
        """Return the arguments of an endpoint's client: no retries and redirects, on aiohttp, proxies by environment.

        A call has its time limit from `Dispatch`, whose clock stops while the completion store is locked.
        """
        sdk = self.load_sdk()
        key = self.secret(address)
        timeout = sdk.Timeout(None, connect=min(CONNECT_SECONDS, self.options.timeout / 2))
        # No redirects: the prompts would go to a host that the configuration does not name.
        http = sdk.DefaultAioHttpClient(timeout=timeout, follow_redirects=False)
        return {"api_key": key or NO_KEY, "timeout": timeout, "max_retries": 0, "http_client": http}

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Return the errors of a call without a completion; ValueError: the response is not the documented JSON."""
        return (self.load_sdk().APIError, ValueError)

    def read_failure(self, error: Exception) -> Failure:
        """Return status, body and headers of a failed call."""
        response = getattr(error, "response", None)
        return Failure(
            getattr(error, "status_code", 0),
            getattr(error, "body", None),
            getattr(response, "headers", {}),
        )

    def secret(self, address: Address) -> str:
        """Return the key of an endpoint; ConfigError if it is missing."""
        return read_secret(address.key, f"Model '{self.name}': key")

    @abstractmethod
    def open_client(self, address: Address) -> Client:
        """Return an async client of an endpoint, with `close` and without retries."""

    @abstractmethod
    def request(self, prompt: Prompt) -> Json:
        """Return the body of a request."""

    def request_several(self, prompt: Prompt, count: int) -> Json:
        """Return the body of a request for `count` completions, at most `max_choices`."""
        body = self.request(prompt)
        if count > 1:
            body["n"] = count
        return body

    async def send(self, client: Client, body: Json, count: int = 1) -> list[Completion]:
        """Send one request; return its completions, 1 to `count`, or raise one of `failures`."""
        # cast_to=object: a server that deviates from the SDK's types is still read.
        response = await client.post(self.path, body=body, cast_to=object)
        outputs = self.read_choices(response)[:count]
        return completions_of(outputs, response, body, self.options.price)

    def read_choices(self, response: object) -> list[Output]:
        """Return the outputs in a response, at least one; ValueError if it is not the documented JSON."""
        return [self.read(response)]

    @staticmethod
    @abstractmethod
    def read(response: object) -> Output:
        """Return the output in a response; ValueError if it is not the documented JSON."""
