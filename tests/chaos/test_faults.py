"""Every fault a vendor has shown, at random: each answer arrives, is stored once, and no call is made in vain."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.interfaces.errors import FinalError, TemporaryError
from connectors.interfaces.models import Completion
from connectors.models.base.completion_cache import Recording
from tests.support.servers.vendor import Plan, VendorServer
from tests.support.servers.vendor_faults import FAULTS
from tests.support.servers.vendor_messages import Reply, Request, ok, text_for
from tests.support.servers.vendor_models import VENDORS, recording, writings

TIMEOUT = 4.0
"""Seconds; a good answer is there in milliseconds, on a busy machine too."""

SLOW: dict[str, Plan] = {
    "later than the timeout": lambda request: Reply(delay=TIMEOUT + 1, body=ok(request).body),
    "byte by byte, too slow": lambda request: Reply(dribble=0.2, body=ok(request).body),
}
"""The faults of the table that a timeout makes, for a longer one."""
ENDING = {
    name
    for name, fault in FAULTS.items()
    if fault.outcome == "FinalError" or "error" in fault.outcome
}
"""The run, or one prompt, has no answer and is requested again by the next run. All others end with the retry."""
KINDS = {
    name: SLOW.get(name, fault.reply)
    for name, fault in FAULTS.items()
    if name in ENDING or fault.requests == 5
}
"""Refusals and odd answers are missing: they are answers, and stored as such."""


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


def to_the_end(
    opened: Callable[[], Recording], count: int
) -> tuple[Recording, list[Completion], int]:
    """Start again until every prompt has an answer; return the last model, the answers and the number of starts."""
    for starts in range(1, 200):
        model = opened()
        try:
            answers = model.complete(writings(count))
        except (FinalError, TemporaryError):
            continue
        if all(answer.finish_reason == "stop" for answer in answers):
            return model, answers, starts
    raise AssertionError("there is no end to it")


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_few_hundred_answers_survive_random_faults_of_every_kind(
    vendor: str, tmp_path: Path
) -> None:
    count, moody = 300, Moody(0.2, seed=3)
    with VendorServer(plan=moody) as server:
        model, answers, starts = to_the_end(
            lambda: recording(vendor, server.url, tmp_path, timeout=TIMEOUT), count
        )
        assert server.count == count + moody.faults.total(), "every call is an answer or a fault"
        assert [[answer.text] for answer in answers] == [
            moody.given[entry.text] for entry in writings(count)
        ]
        again = recording(vendor, server.url, tmp_path)
        assert again.complete(writings(count)) == answers
        assert server.count == count + moody.faults.total(), "nothing is left to ask"
    store = model.store
    assert len(store.since(model.identity, 0)) == count
    assert len({stored.completion.text for stored in store.since(model.identity, 0)}) == count
    asked = store.completion_counts(model.identity)
    assert (len(asked), set(asked.values())) == (count, {1})
    assert set(moody.faults) == set(KINDS), "every kind of fault came up"
    assert 1 < starts <= 1 + sum(moody.faults[kind] for kind in ENDING)
