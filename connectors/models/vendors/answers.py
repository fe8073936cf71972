"""What a vendor's raw answer holds: the text without reasoning or control tokens, or several texts of one call.

General cleaning (lead-ins, quotes, lists) is the business of the tasks.
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
"""JSON schema of an answer with several texts."""

_NAMES = "think|thinking|thought|reasoning|reflection|analysis|scratchpad"
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_NAMES})>|\[(?P<end2>/?)THINK\]", re.I)
_FINAL_CHANNEL = re.compile(r"\A.*<\|channel\|>\s*final\s*(?:<\|constrain\|>\w+)?<\|message\|>", re.S)
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary).*\Z", re.S)
_TOKENS = re.compile(r"<\|[a-z_]+\|>|</?s>|<(?:end_of_turn|start_of_turn|eos|bos|pad)>|\[/?INST\]|<<?/?SYS>?>")
_FENCE = re.compile(r"```(?:json)?\s*(.*?)(?:```|\Z)", re.S)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)


def plain_text(raw: str) -> str:
    """Return an answer without reasoning blocks and control tokens; '' where the reasoning never came to an end."""
    text = _FINAL_CHANNEL.sub("", raw)
    text = _OTHER_CHANNEL.sub("", text)
    return _TOKENS.sub("", _without_reasoning(text)).strip()


def _without_reasoning(text: str) -> str:
    """Cut out what stands between reasoning tags; a block may begin before the answer and end after it."""
    kept: list[str] = []
    start, opened = 0, ""
    for tag in _TAG.finditer(text):
        name, ends = (tag["name"] or "THINK").lower(), bool(tag["end"] or tag["end2"])
        if not opened and not ends:
            kept.append(text[start : tag.start()])
            opened = name
        elif not opened:
            # The opening stood in the chat template: everything so far was reasoning.
            kept.clear()
        elif ends and name == opened:
            opened = ""
        start = tag.end()
    return "".join(kept) if opened else "".join([*kept, text[start:]])


def ask_for_several(text: str, count: int) -> str:
    """Return a prompt that asks for `count` answers to `text` as JSON."""
    return (
        f"{text}\n\nDo this {count} times, each time with other words and other details. Answer with JSON alone: "
        f'{{"{FIELD}": ["...", "..."]}}, a list of {count} strings.'
    )


def several_texts(raw: str, count: int) -> list[str]:
    """Return up to `count` texts of an answer to `ask_for_several`; what broke off in the middle is left out.

    Accepted: the object asked for, a bare list, either in a fence or among words, and the whole strings of a list that
    was cut off.
    """
    text = plain_text(raw)
    if fence := _FENCE.search(text):
        text = fence[1]
    found = _parsed(text)
    return [entry.strip() for entry in found if entry.strip()][:count]


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
    """Return the strings of the first list found in a JSON value; objects count by their first string."""
    if isinstance(value, dict):
        lists = [entry for entry in value.values() if isinstance(entry, list)]
        return _strings(lists[0]) if lists else []
    if not isinstance(value, list):
        return []
    found = []
    for entry in value:
        words = (
            next((part for part in entry.values() if isinstance(part, str)), "") if isinstance(entry, dict) else entry
        )
        found.append(words if isinstance(words, str) else "")
    return found
