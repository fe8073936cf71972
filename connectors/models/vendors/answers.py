"""Parsing of raw completions: text without reasoning, or several texts.

General cleaning (lead-ins, quotes, lists) is done by the tasks.
"""

from __future__ import annotations

import json
import re
from typing import Any

FIELD = "texts"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {FIELD: {"type": "array", "items": {"type": "string"}}},
    "required": [FIELD],
    "additionalProperties": False,
}
"""JSON schema of a completion with several texts."""

_NAMES = "think|thinking|thought|reasoning|reflection|analysis|scratchpad"
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_NAMES})>|\[(?P<end2>/?)THINK\]", re.I)
_FINAL_CHANNEL = re.compile(r"\A.*<\|channel\|>\s*final\s*(?:<\|constrain\|>\w+)?<\|message\|>", re.S)
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary).*\Z", re.S)
_TOKENS = re.compile(r"<\|[a-z_]+\|>|</?s>|<(?:end_of_turn|start_of_turn|eos|bos|pad)>|\[/?INST\]|<<?/?SYS>?>")
_FENCE = re.compile(r"```(?:json)?\s*(.*?)(?:```|\Z)", re.S)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)


def plain_text(raw: str) -> str:
    """Return a completion without reasoning and control tokens.

    It is empty if the reasoning never ended.
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


def request_several(text: str, count: int) -> str:
    """Return a prompt that requests `count` completions of `text` as JSON."""
    return (
        f"{text}\n\nDo this {count} times, each time with other words and other details. Answer with JSON alone: "
        f'{{"{FIELD}": ["...", "..."]}}, a list of {count} strings.'
    )


def several_texts(raw: str, count: int) -> list[str]:
    """Return up to `count` texts of a response to `request_several`.

    Accepted are the requested object and a bare list, also in a fence or within text, and the complete strings of a
    truncated list.
    """
    text = plain_text(raw)
    if fence := _FENCE.search(text):
        text = fence[1]
    texts = _parsed(text)
    return [entry.strip() for entry in texts if entry.strip()][:count]


def _parsed(text: str) -> list[str]:
    for opening, closing in (("{", "}"), ("[", "]")):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            try:
                return _strings(json.loads(text[start : end + 1], strict=False))
            except ValueError:
                continue
    start = text.find("[")
    return [json.loads(part[0], strict=False) for part in _STRING.finditer(text, start)] if start >= 0 else []


def _strings(value: Any) -> list[str]:
    """Return the strings of the first list in a JSON value; of objects the first one."""
    if isinstance(value, dict):
        lists = [entry for entry in value.values() if isinstance(entry, list)]
        return _strings(lists[0]) if lists else []
    if not isinstance(value, list):
        return []
    strings = []
    for entry in value:
        text = (
            next((part for part in entry.values() if isinstance(part, str)), "") if isinstance(entry, dict) else entry
        )
        strings.append(text if isinstance(text, str) else "")
    return strings
