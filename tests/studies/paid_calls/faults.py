"""What each fault of a server costs: requests, answers billed, completions stored, and the bill beside the purse."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import WaspError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import Purse
from tests.support.servers.vendor import Plan, VendorServer
from tests.support.servers.vendor_messages import Reply, Request, failure, no_choices, ok, with_usage
from tests.support.servers.vendor_models import VENDORS, writings

COLUMNS = ("fault", "vendor", "requests", "billed", "stored", "bill", "paid from the purse", "outcome")
PRICE = {"input": 1000.0, "output": 3000.0}
BILL = (11 * PRICE["input"] + 7 * PRICE["output"]) / 1e6
PROMPTS = 4

Fault = Reply | Plan
FREE: dict[str, Fault] = {
    **{str(status): failure(status) for status in (408, 429, 500, 502, 503, 504, 529)},
    **{
        f"429, retry-after '{wish}'": failure(429, headers={"retry-after": wish})
        for wish in ("0.01", "soon", "nan", "-5")
    },
    "503, HTML": Reply(status=503, body=b"<html>upstream</html>", content_type="text/html"),
    "dropped": Reply(drop=True),
    "error in a body of status 200": Reply(body={"error": {"message": "Provider returned error", "code": 502}}),
    "401": failure(401, "Incorrect API key provided", "invalid_request_error", "invalid_api_key"),
    "403": failure(403, "Request forbidden", "forbidden"),
    "403 of a filter": failure(403, "Your input was flagged for violence.", "moderation"),
    "404": failure(404, "The model does not exist", "invalid_request_error", "model_not_found"),
    "402": failure(402, "Insufficient Balance"),
    "quota used up": failure(429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"),
    "413": Reply(status=413, body=b"Request Entity Too Large", content_type="text/plain"),
    "422 with details": Reply(
        status=422, body={"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs", "input": 1}]}
    ),
    "redirect": Reply(status=307, headers={"location": "http://127.0.0.2:9/v1/chat/completions"}),
}
"""Faults that no vendor bills."""

BILLED: dict[str, Fault] = {
    "cut off": lambda request: Reply(cut=True, body=ok(request).body),
    "malformed JSON": Reply(body=b'{"choices": [nope'),
    "HTML with status 200": Reply(body=b"<html>gateway</html>", content_type="text/html"),
    "a list": Reply(body=[1, 2]),
    "bytes that are not UTF-8": lambda request: Reply(body=b'{"id": "\xff\xfe"}'),
    "later than the timeout": lambda request: Reply(delay=1.5, body=ok(request).body),
    "byte by byte, too slow": lambda request: Reply(body=ok(request).body, dribble=0.02),
    "no choices": no_choices,
    "content null": lambda request: ok(request, None),
    "reasoning alone": lambda request: ok(request, "<think>A text about ... done.</think>"),
    "truncated, empty": lambda request: ok(request, None, "length"),
    "truncated": lambda request: ok(request, finish="length"),
    "refused by the model": lambda request: ok(request, None, "content_filter"),
    "no usage": lambda request: with_usage(request, None),
    "impossible usage": lambda request: with_usage(request, {"prompt_tokens": -4, "output_tokens": True}),
    "another model answers": lambda request: _served(request, "some-cheap-model"),
    "1 MB of text": lambda request: ok(request, "word " * 200_000),
    "half a surrogate pair": lambda request: ok(request, "half \ud83d pair"),
    "NUL byte": lambda request: ok(request, "a\x00b"),
}
"""Faults of responses that vendors bill."""


def _served(request: Request, model: str) -> Reply:
    reply = ok(request)
    reply.body["model"] = model
    return reply


def rows() -> Iterator[Sequence[object]]:
    """Let the second of four requests meet each fault, once; yield what it cost."""
    for name, fault in (FREE | BILLED).items():
        for vendor in VENDORS:
            with tempfile.TemporaryDirectory() as folder:
                yield (name, vendor, *_cost(vendor, fault, name in BILLED, Path(folder)))


def _cost(vendor: str, fault: Fault, is_billed: bool, folder: Path) -> Sequence[object]:
    billed = 0

    def plan(request: Request) -> Reply | None:
        nonlocal billed
        is_second = server.count == 2
        billed += is_billed or not is_second
        return (fault if isinstance(fault, Reply) else fault(request)) if is_second else None

    with VendorServer(plan=plan) as server:
        connector, suffix = VENDORS[vendor]
        options: dict[str, Any] = {"endpoint": server.url + suffix, "key": "none", "concurrency": 1, "timeout": 1}
        options |= {"price": PRICE, "tries": 3, "max_tokens": 60}
        model = connector.from_spec(ModelSpec("writer", vendor, "some-model", options))
        purse, store = Purse(folder / "spent.jsonl", most=100.0), CompletionStore(folder / "completions")
        try:
            answers = Recording(model, store, purse=purse).complete(writings(PROMPTS))
            reasons = [answer.finish_reason for answer in answers]
            outcome = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
        except WaspError as error:
            outcome = type(error).__name__
    bill = billed * BILL
    if bill > purse.spent + 1e-9:
        raise AssertionError(f"{vendor}, {fault}: a bill of {bill}, and {purse.spent} paid")
    return server.count, billed, store.count(model.identity), f"${bill:.3f}", f"${purse.spent:.3f}", outcome
