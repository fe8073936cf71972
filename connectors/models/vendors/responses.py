"""Values read from a vendor's response: its text without reasoning, and the tokens of a call."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from connectors.interfaces.models import Completion
from connectors.models.vendors.options import TokenPrice

BYTES_PER_TOKEN = 3
"""Bytes per estimated token. English has more than four, so an estimate is rarely too low."""

NO_ROOM = (
    "the token limit ended the completion before its first word. Raise max_tokens, or lower the reasoning effort in "
    "the options of this PLM"
)
"""Error of a completion whose tokens all went into reasoning."""

_METADATA_FIELDS = ("role", "type", "id")
"""Fields of a completion's parts that the model did not write."""

_NAMES = "think|thinking|thought|reasoning|reflection|analysis|scratchpad"
_LEFT_OUT = (
    # The channels of gpt-oss: all before the final one is reasoning, and without a final one everything is.
    (re.compile(r"\A.*<\|channel\|>\s*final\s*(?:<\|constrain\|>\w+)?<\|message\|>", re.S), ""),
    (re.compile(r"<\|channel\|>\s*(?:analysis|commentary).*\Z", re.S), ""),
    (re.compile(r"\[(/?)THINK\]", re.I), r"<\1think>"),
    # Reasoning, which may never end.
    (re.compile(rf"<({_NAMES})>.*?(?:</\1>|\Z)", re.S | re.I), ""),
    # Its opening tag can be in the chat template, so only the closing one is in the text.
    (re.compile(rf"\A.*</(?:{_NAMES})>", re.S | re.I), ""),
    (
        re.compile(
            r"<\|[a-z_]+\|>|</?s>|<(?:end_of_turn|start_of_turn|eos|bos|pad)>|\[/?INST\]|<<?/?SYS>?>"
        ),
        "",
    ),
)
"""Reasoning and control tokens in the order of their removal, with their replacements."""


class Output(NamedTuple):
    """A model's output as a vendor states it.

    `content`: a text, or a list of parts. `reason`: finish reason of a completion. `reported`: tokens read and written,
    and the special ones, as in `TokenPrice.dollars`. `written`: all that the model wrote, including reasoning and tool
    calls. `refusal`: its reason, '' for none.
    """

    content: object
    reason: str
    reported: tuple[object, ...]
    written: object
    refusal: str = ""


def part(value: Any, *names: str) -> Any:
    """Return a field of a JSON value by its path, None if it does not exist."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def completion_of(
    output: Output, response: object, body: Mapping[str, object], price: TokenPrice
) -> Completion:
    """Return the completion of a response to `body`; token counts come from bytes if missing or impossible.

    All texts of the body count. An output that ended at the request's token limit has that many tokens.
    """
    text = plain_text(_joined(output.content))
    reason = output.reason
    error = output.refusal
    if reason == "length" and not text:
        reason = "error"
        error = NO_ROOM
    tokens_in, tokens_out, *special = map(count_of, output.reported)
    written_bytes = _text_bytes(output.written)
    # A reported 0 counts only if nothing was written: some servers report 0 for all calls.
    out_missing = not tokens_out and (written_bytes > 0 or output.reported[1] != 0)
    is_estimated = out_missing or not tokens_in
    tokens_in = tokens_in or _estimate(request_bytes(body))
    if out_missing:
        tokens_out = _estimate(written_bytes)
        if output.reason == "length":
            tokens_out = max(tokens_out, limit_of(body))
    dollars = price.dollars(tokens_in, tokens_out, *special)
    if output.refusal:
        text = ""
    return Completion(
        text,
        reason,
        tokens_in,
        tokens_out,
        dollars,
        error,
        is_estimated,
        request_id=_name(part(response, "id")),
        served_model=_name(part(response, "model")),
    )


def completions_of(
    outputs: Sequence[Output], response: object, body: Mapping[str, object], price: TokenPrice
) -> list[Completion]:
    """Return the completions of the choices in one response; their tokens and dollars add up to those of the call.

    The prompt is paid once: its tokens are divided equally. A server reports the tokens written for all choices
    together; they are divided by the bytes of each.
    """
    completions = [completion_of(output, response, body, price) for output in outputs]
    if len(outputs) == 1:
        return completions
    reported = outputs[0].reported
    written = [completion.tokens_out for completion in completions]
    if total := count_of(reported[1]):
        written = divided(total, [_text_bytes(output.written) for output in outputs])
    tokens_in = completions[0].tokens_in
    read = divided(tokens_in, [1] * len(outputs))
    special = map(count_of, reported[2:])
    dollars_in = price.dollars(tokens_in, 0, *special) / len(outputs)
    is_estimated = any(completion.estimated for completion in completions)
    return [
        replace(
            completion,
            tokens_in=of_prompt,
            tokens_out=of_text,
            dollars=dollars_in + price.dollars(0, of_text),
            estimated=is_estimated,
        )
        for completion, of_prompt, of_text in zip(completions, read, written, strict=True)
    ]


def divided(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a number into whole parts in proportion to `weights`, equal ones if all are 0; the parts add up to it."""
    if not any(weights):
        weights = [1] * len(weights)
    ends = [total * end // sum(weights) for end in accumulate(weights)]
    return [end - begin for begin, end in pairwise([0, *ends])]


def _name(value: object) -> str:
    """Return the beginning of a name that a server states, '' if it is no text."""
    if not isinstance(value, str):
        return ""
    return value[:200]


def _joined(content: object) -> str:
    """Return a text, or the text parts of a content list joined."""
    if isinstance(content, list):
        texts = [part(entry, "text") for entry in content if part(entry, "type") == "text"]
        return "".join(text for text in texts if isinstance(text, str))
    if isinstance(content, str):
        return content
    return ""


def count_of(value: object) -> int:
    """Return a count of a usage object, 0 if it is missing or impossible."""
    # The exact type: True is an int as well.
    if type(value) is int:
        return max(value, 0)
    return 0


def _estimate(size: int) -> int:
    return max(1, -(-size // BYTES_PER_TOKEN))


def limit_of(body: Mapping[str, Any]) -> int:
    """Return the token limit of a completion."""
    return int(body.get("max_completion_tokens") or body.get("max_tokens") or 0)


def request_bytes(body: Mapping[str, object]) -> int:
    """Return the bytes of a request's texts: messages, system prompt, schema, tools.

    The JSON around the texts approximates roles and formatting.
    """
    texts = [
        value
        for name, value in body.items()
        if name != "model" and not isinstance(value, int | float)
    ]
    return len(json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _text_bytes(value: object) -> int:
    """Return the bytes of all texts in a JSON value."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(
            _text_bytes(item) for name, item in value.items() if name not in _METADATA_FIELDS
        )
    if isinstance(value, list):
        return sum(map(_text_bytes, value))
    return 0


def plain_text(raw: str) -> str:
    """Return a completion without reasoning and control tokens, empty if the reasoning never ended.

    General cleaning (lead-ins, quotes, lists) is done by the tasks.
    """
    text = raw
    for pattern, replacement in _LEFT_OUT:
        text = pattern.sub(replacement, text)
    return text.strip()
