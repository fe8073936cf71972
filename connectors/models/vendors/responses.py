"""Values read from a vendor's response: its text without reasoning, and the tokens of a call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from connectors.models.vendors.options import TokenPrice

BYTES_PER_TOKEN = 3
"""Bytes per estimated token. English has more than four, so an estimate is rarely too low."""

_METADATA_FIELDS = ("role", "type", "id")
"""Fields of a completion's parts that the model did not write."""

_NAMES = "think|thinking|thought|reasoning|reflection|analysis|scratchpad"
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_NAMES})>|\[(?P<end2>/?)THINK\]", re.I)
_FINAL_CHANNEL = re.compile(r"\A.*<\|channel\|>\s*final\s*(?:<\|constrain\|>\w+)?<\|message\|>", re.S)
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary).*\Z", re.S)
_TOKENS = re.compile(r"<\|[a-z_]+\|>|</?s>|<(?:end_of_turn|start_of_turn|eos|bos|pad)>|\[/?INST\]|<<?/?SYS>?>")


def json_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; ValueError for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError("the response is not a JSON object")
    return value


def part(value: Any, *names: str) -> Any:
    """Return a field of a JSON value by its path, None if it does not exist."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def source_of(response: Any) -> dict[str, Any]:
    """Return the request id and the model that a response states; empty if it states none."""
    names = {"request_id": part(response, "id"), "served_model": part(response, "model")}
    return {field: name[:200] if isinstance(name, str) else "" for field, name in names.items()}


def joined_texts(content: Any) -> str:
    """Return a text, or the text parts of a content list joined."""
    if isinstance(content, list):
        texts = [part(entry, "text") for entry in content if part(entry, "type") == "text"]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def count_tokens(
    body: Mapping[str, Any], reported: tuple[Any, ...], written: Any, at_limit: bool, price: TokenPrice
) -> dict[str, Any]:
    """Return `tokens_in`, `tokens_out`, `estimated` and `dollars`; counts come from bytes if missing or impossible.

    `body`: the request; all its texts count. `reported`: tokens read and written, and the special ones, as in
    `TokenPrice.dollars`. `written`: the model's whole output, including reasoning and tool calls. `at_limit`: the
    completion ended at the request's token limit, so it has that many tokens.
    """
    written_bytes = _text_bytes(written)
    tokens_in, tokens_out, *special = map(count_of, reported)
    in_missing = not tokens_in
    out_missing = not _is_count(reported[1]) or (tokens_out == 0 and written_bytes > 0)
    if in_missing:
        tokens_in = _estimate(request_bytes(body))
    if out_missing:
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        tokens_out = max(_estimate(written_bytes), limit if at_limit else 0)
    dollars = price.dollars(tokens_in, tokens_out, *special)
    is_estimated = in_missing or out_missing
    return {"tokens_in": tokens_in, "tokens_out": tokens_out, "estimated": is_estimated, "dollars": dollars}


def count_of(value: Any, *names: str) -> int:
    """Return a count of a usage object by its path, 0 if it is missing or impossible."""
    count = part(value, *names) if names else value
    return int(count) if _is_count(count) else 0


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


def plain_text(raw: str) -> str:
    """Return a completion without reasoning and control tokens, empty if the reasoning never ended.

    General cleaning (lead-ins, quotes, lists) is done by the tasks.
    """
    text = _FINAL_CHANNEL.sub("", raw)
    text = _OTHER_CHANNEL.sub("", text)
    return _TOKENS.sub("", _without_reasoning(text)).strip()


def _without_reasoning(text: str) -> str:
    """Remove the content of reasoning tags, also of blocks with a missing tag."""
    parts: list[str] = []
    start, open_tag = 0, ""
    for tag in _TAG.finditer(text):
        name, is_end = (tag["name"] or "THINK").lower(), bool(tag["end"] or tag["end2"])
        if not open_tag and not is_end:
            parts.append(text[start : tag.start()])
            open_tag = name
        elif not open_tag:
            # The chat template contains the opening tag: everything so far was reasoning.
            parts.clear()
        elif is_end and name == open_tag:
            open_tag = ""
        start = tag.end()
    return "".join(parts) if open_tag else "".join([*parts, text[start:]])
