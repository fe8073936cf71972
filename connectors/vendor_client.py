"""What both vendors' SDKs have in common: how their clients are opened and their answers read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NO_KEY_NEEDED = "no-key-needed"
"""Sent to servers without keys, as the SDKs insist on one."""


def client_arguments(sdk: Any, secret: str, timeout: float) -> dict[str, Any]:
    """Return what every client is opened with: no retries of its own, aiohttp as transport where it is there.

    httpx's own connection pool slows down with the number of open connections.
    """
    try:
        http_client = sdk.DefaultAioHttpClient(timeout=timeout)
    except (RuntimeError, AttributeError):
        http_client = None
    return {"api_key": secret or NO_KEY_NEEDED, "timeout": timeout, "max_retries": 0, "http_client": http_client}


def json_object(answer: Any) -> Mapping[str, Any]:
    """Return a JSON object; ValueError for anything else."""
    if not isinstance(answer, Mapping):
        raise ValueError("the answer is no JSON object")
    return answer


def part(value: Any, name: str) -> Any:
    """Return a field of a JSON value, None where there is none."""
    return value.get(name) if isinstance(value, Mapping) else None


def tokens(usage: Any, *names: str) -> int:
    """Return the sum of counts of a usage object; missing ones count as 0."""
    counts = [part(usage, name) for name in names]
    return sum(count for count in counts if isinstance(count, int) and count > 0)
