"""Every fault a vendor has shown, at random: each answer arrives, is stored once, and no call is made in vain."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.base import Completion, FinalError, TemporaryError
from connectors.completions import Recording
from tests.connectors.test_paid_once import VENDORS, recording, writings
from tests.vendor_server import VendorServer
from tests.vendor_wire import Reply, Request, failure, no_choices, ok, text_for

SHARE = 0.05
TIMEOUT = 4.0
"""Seconds; a good answer is there in milliseconds, on a busy machine too."""

PASSING: dict[str, Reply | Callable[[Request], Reply]] = {
    "429": failure(429, "slow down", "rate_limit_error"),
    "429 and when to come back": failure(429, headers={"retry-after": "0.02"}),
    "429 and when, in milliseconds": failure(429, headers={"retry-after-ms": "5"}),
    "503": failure(503),
    "529": failure(529, "overloaded", "overloaded_error"),
    "500": failure(500),
    "502 of a proxy": Reply(status=502, body=b"Bad gateway", content_type="text/html"),
    "504 of a proxy": Reply(status=504, body=b"<html>", content_type="text/html"),
    "408": failure(408),
    "409": failure(409),
    "hung up": Reply(drop=True),
    "cut off": lambda request: Reply(cut=True, body=ok(request).body),
    "half a JSON": Reply(body=b'{"choices": [nope'),
    "a page of HTML": Reply(body=b"<html>Be right back</html>", content_type="text/html"),
    "a list": Reply(body=[1, 2]),
    "nothing in it": no_choices,
    "no text": lambda request: ok(request, None),
    "reasoning alone": lambda request: ok(request, "<think>A text about ... done.</think>"),
    "too late": lambda request: Reply(delay=TIMEOUT + 1, body=ok(request).body),
    "byte by byte": lambda request: Reply(dribble=0.2, body=ok(request).body),
}
"""Over with the next try. Refusals are missing: they are answers, and stored as such."""

OF_ONE_PROMPT: dict[str, Reply | Callable[[Request], Reply]] = {
    "not accepted": failure(400, "no such thing", "invalid_request_error"),
    "too large": failure(413, "too large", "request_too_large"),
    "unprocessable": failure(422, "strange", "invalid_request_error"),
}
"""The prompt has no answer, and is asked again by the next run."""

OF_ALL: dict[str, Reply | Callable[[Request], Reply]] = {
    "bad key": failure(401, "bad key", "authentication_error"),
    "no credit": failure(429, "You exceeded your quota", "insufficient_quota", "insufficient_quota"),
}
"""The run ends, and goes on when it is started again."""

KINDS = {**PASSING, **OF_ONE_PROMPT, **OF_ALL}


class Moody:
    """A plan of a server: a share of the answers are faults of kinds drawn at random.

    `faults` counts them by kind; `given` holds the good answers by prompt.
    """

    def __init__(self, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self.given: dict[str, list[str]] = {}
        self._dice = random.Random(seed)

    def __call__(self, request: Request) -> Reply | None:
        if self._dice.random() >= SHARE:
            self.given.setdefault(request.prompt, []).append(text_for(request))
            return None
        kind = self._dice.choice(list(KINDS))
        self.faults[kind] += 1
        fault = KINDS[kind]
        return fault if isinstance(fault, Reply) else fault(request)


def to_the_end(opened: Callable[[], Recording], count: int) -> tuple[Recording, list[Completion], int]:
    """Start anew until every prompt has an answer; return the last model, the answers and the number of starts."""
    for starts in range(1, 200):
        model = opened()
        try:
            answers = model.complete(writings(count))
        except (FinalError, TemporaryError):
            continue
        if all(answer.finish_reason == "stop" for answer in answers):
            return model, answers, starts
    raise AssertionError("there is no end to it")


def storm(vendor: str, count: int, folder: Path, seed: int, **options: Any) -> tuple[Counter[str], int]:
    """Write `count` texts through the faults and check every promise; return the faults and the number of starts."""
    moody = Moody(seed)
    with VendorServer(plan=moody) as server:
        model, answers, starts = to_the_end(
            lambda: recording(vendor, server.url, folder, timeout=TIMEOUT, **options), count
        )
        assert server.count == count + moody.faults.total(), "every call is an answer or a fault"
        assert [[answer.text] for answer in answers] == [moody.given[one.text] for one in writings(count)]
        again = recording(vendor, server.url, folder)
        assert again.complete(writings(count)) == answers
        assert server.count == count + moody.faults.total(), "nothing is left to ask"
    store = model.store
    assert store.count(model.identity) == count
    assert len({stored.completion.text for stored in store.since(model.identity, 0)}) == count
    asked = store.asked(model.identity)
    assert (len(asked), set(asked.values())) == (count, {1})
    return moody.faults, starts


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_few_hundred_answers_survive_random_faults(vendor: str, tmp_path: Path) -> None:
    faults, _ = storm(vendor, 300, tmp_path, seed=7)
    assert len(faults) >= 5


@pytest.mark.slow
def test_ten_thousand_answers_survive_random_faults_of_every_kind(tmp_path: Path) -> None:
    faults, starts = storm("openai", 10_000, tmp_path, seed=3, concurrency=32)
    assert set(faults) == set(KINDS), "every kind of fault came up"
    assert starts > 1, "a bad key ends a run"
    assert starts <= 1 + sum(faults[kind] for kind in [*OF_ALL, *OF_ONE_PROMPT])
