"""Every fault a vendor has shown, at random: each answer arrives, is stored once, and no call is made in vain."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import FinalError, TemporaryError
from connectors.interfaces.models import Completion
from connectors.models.base.completion_cache import Recording
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request, failure, no_choices, ok, text_for
from tests.support.servers.vendor_models import VENDORS, recording, writings

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
    """A plan of a server: a share of the answers are faults, the kinds in random order, each as often as the others.

    `faults` counts them by kind; `given` holds the good answers by prompt.
    """

    def __init__(self, share: float, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self.given: dict[str, list[str]] = {}
        self._share, self._dice = share, random.Random(seed)
        self._next: list[str] = []

    def __call__(self, request: Request) -> Reply | None:
        if self._dice.random() >= self._share:
            self.given.setdefault(request.prompt, []).append(text_for(request))
            return None
        self._next = self._next or self._dice.sample(list(KINDS), len(KINDS))
        kind = self._next.pop()
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


def storm(vendor: str, count: int, share: float, folder: Path, **options: Any) -> None:
    """Write `count` texts through the faults of every kind, and check what is promised."""
    moody = Moody(share, seed=3)
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
    assert set(moody.faults) == set(KINDS), "every kind of fault came up"
    assert 1 < starts <= 1 + sum(moody.faults[kind] for kind in [*OF_ALL, *OF_ONE_PROMPT])


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_few_hundred_answers_survive_random_faults_of_every_kind(vendor: str, tmp_path: Path) -> None:
    storm(vendor, 300, 0.1, tmp_path)


@pytest.mark.slow
def test_ten_thousand_answers_survive_random_faults_of_every_kind(tmp_path: Path) -> None:
    storm("openai", 10_000, 0.05, tmp_path, concurrency=32)
