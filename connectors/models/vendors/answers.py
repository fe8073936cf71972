"""Parsing of raw completions: text without reasoning.

General cleaning (lead-ins, quotes, lists) is done by the tasks.
"""

from __future__ import annotations

import re

_NAMES = "think|thinking|thought|reasoning|reflection|analysis|scratchpad"
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_NAMES})>|\[(?P<end2>/?)THINK\]", re.I)
_FINAL_CHANNEL = re.compile(r"\A.*<\|channel\|>\s*final\s*(?:<\|constrain\|>\w+)?<\|message\|>", re.S)
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary).*\Z", re.S)
_TOKENS = re.compile(r"<\|[a-z_]+\|>|</?s>|<(?:end_of_turn|start_of_turn|eos|bos|pad)>|\[/?INST\]|<<?/?SYS>?>")


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
