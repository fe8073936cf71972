"""Values read from a vendor's response, and the tokens of a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.interfaces.models import Completion

BYTES_PER_TOKEN = 3
"""Bytes per estimated token. English has more than four, so an estimate is rarely too low."""

_METADATA_FIELDS = ("role", "type", "id")
"""Fields of a completion's parts that the model did not write."""


@dataclass(frozen=True, slots=True)
class RawCompletion(Completion):
    """A completion as the server sent it, with the counts of tokens that may have a price of their own."""

    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0


def json_object(answer: Any) -> Mapping[str, Any]:
    """Return a JSON object; ValueError for anything else."""
    if not isinstance(answer, Mapping):
        raise ValueError("the response is not a JSON object")
    return answer


def part(value: Any, name: str) -> Any:
    """Return a field of a JSON value, None if it does not exist."""
    return value.get(name) if isinstance(value, Mapping) else None


def required(value: Any, name: str) -> Any:
    """Return a field of a JSON value; ValueError if it does not exist."""
    content = part(value, name)
    if content is None:
        raise ValueError(f"the response has no field `{name}`")
    return content


def name_in(response: Any, field: str) -> str:
    """Return a name that a response states, such as its `id` or `model`; empty if it states none."""
    name = part(response, field)
    return name[:200] if isinstance(name, str) else ""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of one call.

    `estimated`: the server reported none, only one of the two numbers, or impossible ones.
    """

    read: int
    written: int
    estimated: bool


def count_tokens(body: Mapping[str, Any], reported: tuple[Any, Any], written: Any, at_limit: bool) -> TokenCount:
    """Return the reported tokens, estimated from bytes if missing or impossible.

    `body`: the request; all its texts count. `written`: the model's whole output, including reasoning and tool calls.
    `at_limit`: the completion ended at the request's token limit, so it has that many tokens.
    """
    answer_bytes = _text_bytes(written)
    tokens_in, tokens_out = (count if _is_count(count) else 0 for count in reported)
    in_missing = not tokens_in
    out_missing = not _is_count(reported[1]) or (tokens_out == 0 and answer_bytes > 0)
    if in_missing:
        tokens_in = _estimate(request_bytes(body))
    if out_missing:
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        tokens_out = max(_estimate(answer_bytes), limit if at_limit else 0)
    return TokenCount(tokens_in, tokens_out, in_missing or out_missing)


def count_of(usage: Any, *names: str) -> int:
    """Return a count of a usage object by its path, 0 if it is missing or impossible."""
    for name in names:
        usage = part(usage, name)
    return int(usage) if _is_count(usage) else 0


def sum_counts(usage: Any, first: str, optional: Iterable[str]) -> int | None:
    """Return the sum of a usage object's counts, None without a valid first count."""
    counts = [part(usage, name) for name in (first, *optional)]
    return sum(filter(_is_count, counts)) if _is_count(counts[0]) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _estimate(size: int) -> int:
    return max(1, -(-size // BYTES_PER_TOKEN))


def request_bytes(body: Mapping[str, Any]) -> int:
    """Return the bytes of a request's texts: messages, system prompt, schema, tools.

    The JSON around the texts approximates roles and formatting.
    """
    texts = [value for name, value in body.items() if name != "model" and not isinstance(value, int | float)]
    return len(json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _text_bytes(value: Any) -> int:
    """Return the bytes of all texts in a JSON value."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(_text_bytes(item) for name, item in value.items() if name not in _METADATA_FIELDS)
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0
