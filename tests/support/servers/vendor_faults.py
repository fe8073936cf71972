"""Faults of a vendor's server, and what each costs when the second of four requests meets it once."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import WaspError
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import CostBudget
from tests.support.servers.vendor import Plan, VendorServer
from tests.support.servers.vendor_messages import (
    Reply,
    Request,
    failure,
    no_choices,
    ok,
    with_usage,
)
from tests.support.servers.vendor_models import writings

PRICE = {"input": 1000.0, "output": 3000.0}
BILL = (11 * PRICE["input"] + 7 * PRICE["output"]) / 1e6
PROMPTS = 4


@dataclass(frozen=True)
class Fault:
    """A reply, and the requests, the outcome, and whether the vendor bills it that follow."""

    reply: Reply | Plan
    outcome: str = "4 stop"
    requests: int = 5
    billed: bool = False


def billed(reply: Reply | Plan, outcome: str = "4 stop", requests: int = 5) -> Fault:
    """Return a fault that the vendor bills; by default it is tried again."""
    return Fault(reply, outcome, requests, billed=True)


def served(request: Request) -> Reply:
    """Return the answer of another model."""
    reply = ok(request)
    reply.body["model"] = "some-cheap-model"
    return reply


FINAL = ("FinalError", 2)
FAULTS: dict[str, Fault] = {
    **{str(status): Fault(failure(status)) for status in (408, 429, 500, 502, 503, 504, 529)},
    **{
        f"429, retry-after '{wish}'": Fault(failure(429, headers={"retry-after": wish}))
        for wish in ("0.01", "soon", "nan", "-5")
    },
    "503, HTML": Fault(Reply(status=503, body=b"<html>upstream</html>", content_type="text/html")),
    "dropped": Fault(Reply(drop=True)),
    "error in a body of status 200": Fault(
        Reply(body={"error": {"message": "Provider returned error", "code": 502}})
    ),
    "401": Fault(
        failure(401, "Incorrect API key provided", "invalid_request_error", "invalid_api_key")
    ),
    "403": Fault(failure(403, "Request forbidden", "forbidden")),
    "403 of a filter": Fault(
        failure(403, "Your input was flagged for violence.", "moderation"), "1 refused, 3 stop", 4
    ),
    "400 of a filter": Fault(
        failure(400, "filtered", "error", "content_filter"), "1 refused, 3 stop", 4
    ),
    "404": Fault(
        failure(404, "The model does not exist", "invalid_request_error", "model_not_found")
    ),
    "402": Fault(failure(402, "Insufficient Balance"), *FINAL),
    "no balance": Fault(
        failure(400, "Your credit balance is too low", "invalid_request_error"), *FINAL
    ),
    "quota used up": Fault(
        failure(429, "You exceeded your quota.", "insufficient_quota", "insufficient_quota"), *FINAL
    ),
    "an option": Fault(
        failure(400, "Unsupported value", "invalid_request_error", param="temperature"), *FINAL
    ),
    "413": Fault(
        Reply(status=413, body=b"Too Large", content_type="text/plain"), "1 error, 3 stop", 4
    ),
    "too long": Fault(
        failure(400, "prompt is too long: 9 tokens", "invalid_request_error"), "1 error, 3 stop", 4
    ),
    "not accepted": Fault(
        failure(400, "no such thing", "invalid_request_error"), "1 error, 3 stop", 4
    ),
    "422 with details": Fault(
        Reply(
            status=422,
            body={"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs", "input": 1}]},
        ),
        *FINAL,
    ),
    "redirect": Fault(
        Reply(status=307, headers={"location": "http://127.0.0.2:9/v1/chat/completions"})
    ),
    "cut off": billed(lambda request: Reply(cut=True, body=ok(request).body)),
    "malformed JSON": billed(Reply(body=b'{"choices": [nope')),
    "HTML with status 200": billed(Reply(body=b"<html>gateway</html>", content_type="text/html")),
    "a list": billed(Reply(body=[1, 2])),
    "a number": billed(Reply(body=5)),
    "bytes that are not UTF-8": billed(Reply(body=b'{"id": "\xff\xfe"}')),
    "later than the timeout": billed(lambda request: Reply(delay=1.5, body=ok(request).body)),
    "byte by byte, too slow": billed(lambda request: Reply(body=ok(request).body, dribble=0.02)),
    "no choices": billed(no_choices),
    "content null": billed(lambda request: ok(request, None)),
    "reasoning alone": billed(lambda request: ok(request, "<think>A text about ... done.</think>")),
    "truncated, empty": billed(lambda request: ok(request, None, "length"), "1 error, 3 stop", 4),
    "truncated": billed(lambda request: ok(request, finish="length"), "1 length, 3 stop", 4),
    "refused by the model": billed(
        lambda request: ok(request, "no", "content_filter"), "1 refused, 3 stop", 4
    ),
    "no usage": billed(lambda request: with_usage(request, None), requests=4),
    "impossible usage": billed(
        lambda request: with_usage(request, {"prompt_tokens": -4, "output_tokens": True}),
        requests=4,
    ),
    "another model answers": billed(served, requests=4),
    "1 MB of text": billed(lambda request: ok(request, "word " * 200_000), requests=4),
    "half a surrogate pair": billed(lambda request: ok(request, "half \ud83d pair"), requests=4),
    "NUL byte": billed(lambda request: ok(request, "a\x00b"), requests=4),
}


def cost(fault: Fault, open_model: Any) -> tuple[int, str]:
    """Let the second of four requests of `open_model(server, options)` meet a fault; return requests and outcome."""
    bills = 0

    def plan(request: Request) -> Reply | None:
        nonlocal bills
        is_second = server.count == 2
        bills += fault.billed or not is_second
        return (
            (fault.reply if isinstance(fault.reply, Reply) else fault.reply(request))
            if is_second
            else None
        )

    with tempfile.TemporaryDirectory() as name, VendorServer(plan=plan) as server:
        model = open_model(server, concurrency=1, timeout=1, price=PRICE, tries=3, max_tokens=60)
        cost_budget = CostBudget(Path(name) / "spent.jsonl", most=100.0)
        try:
            answers = Recording(
                model, CompletionStore(Path(name) / "completions"), cost_budget=cost_budget
            ).complete(writings(PROMPTS))
            reasons = [answer.finish_reason for answer in answers]
            outcome = ", ".join(
                f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons))
            )
        except WaspError as error:
            outcome = type(error).__name__
        assert bills * BILL <= cost_budget.spent + 1e-9, (
            f"a bill of {bills * BILL}, and {cost_budget.spent} paid"
        )
        return server.count, outcome
