"""Waits, options and headers of the vendors' packages themselves (`docs/reference/libraries.md`)."""

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic")
httpx = pytest.importorskip("httpx")
httpx2 = pytest.importorskip("httpx2")
openai = pytest.importorskip("openai")


class Refusing:
    """Refuses every request and demands a wait."""

    def __init__(self, package: Any, seconds: str) -> None:
        self.requests: list[Any] = []
        self._package = package
        self._seconds = seconds
        self.client = package.Client(transport=package.MockTransport(self._answer))

    def _answer(self, request: Any) -> Any:
        self.requests.append(request)
        return self._package.Response(429, headers={"retry-after": self._seconds}, json={})


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait, none of which takes place."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def call_openai(client: Any) -> Callable[..., Any]:
    opened = openai.OpenAI(api_key="key-1", base_url="http://host/v1", http_client=client)
    return opened.chat.completions.create


def call_anthropic(client: Any) -> Callable[..., Any]:
    opened = anthropic.Anthropic(api_key="key-1", base_url="http://host", http_client=client)
    return opened.messages.create


MESSAGE = {"model": "m", "max_tokens": 3, "messages": [{"role": "user", "content": "Write."}]}


@pytest.mark.parametrize(("seconds", "waited"), [("119", [119.0] * 2), ("121", [])])
def test_openai_waits_for_two_minutes_and_retries_no_longer_demand(
    waits: list[float], seconds: str, waited: list[float]
) -> None:
    server = Refusing(httpx, seconds)
    with pytest.raises(openai.RateLimitError):
        call_openai(server.client)(**MESSAGE)
    assert waits == waited
    assert len(server.requests) == 1 + len(waited)


def test_anthropic_waits_as_long_as_a_server_demands(waits: list[float]) -> None:
    server = Refusing(httpx2, "5000")
    with pytest.raises(anthropic.RateLimitError):
        call_anthropic(server.client)(**MESSAGE)
    assert waits == [5000.0] * 2


def test_anthropic_has_no_temperature_and_sends_its_key_as_a_bearer_token(
    waits: list[float],
) -> None:
    server = Refusing(httpx2, "1")
    create = call_anthropic(server.client)
    with pytest.raises(anthropic.RateLimitError):
        create(**MESSAGE)
    assert not {"temperature", "top_p", "top_k"} & set(inspect.signature(create).parameters)
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer key-1"
    assert "x-api-key" not in headers
    assert waits
