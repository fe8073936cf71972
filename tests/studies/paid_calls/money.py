"""Time and bill of capped runs, beside runs without a cap."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from connectors.interfaces.errors import MoneyError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import Purse
from connectors.models.vendors.openai import OpenAIModel
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request, ok
from tests.support.servers.vendor_models import writings

COLUMNS = ("cap / true cost", "seconds", "/ without a cap", "most in flight", "bill", "paid from the purse", "cap")
SHARE_COLUMNS = ("cap / true cost", "seconds", "completions per model", "bill", "paid from the purse", "cap")
PRICE = {"input": 1.0, "output": 3.0}
TOKENS = (11, 60)
COST = (TOKENS[0] * PRICE["input"] + TOKENS[1] * PRICE["output"]) / 1e6
CALLS, SHARED_CALLS = 600, 300


def caps() -> Iterator[Sequence[object]]:
    """Request 600 prompts with several caps."""
    lengths = random.Random(1)
    free = 0.0
    for share in (None, 2.0, 1.2, 0.5):
        with VendorServer(plan=lambda request: _reply(request, lengths.uniform(0.2, 0.4))) as server:
            purse, seconds, _ = _taken(server, ["gpt"], CALLS, 64, share)
            free = free or seconds
            bill = server.count * COST
            yield _named(share), f"{seconds:.1f}", f"{seconds / free:.2f}", server.most_in_flight, *_money(bill, purse)


def shares() -> Iterator[Sequence[object]]:
    """Request 300 prompts of each of three models, in threads, from one purse."""
    for share in (None, 2.9, 1.45, 0.77):
        with VendorServer(plan=lambda request: _reply(request, 0.1)) as server:
            purse, seconds, counts = _taken(server, ["gpt", "claude", "gemini"], SHARED_CALLS, 32, share)
            each = " / ".join(map(str, counts))
            yield _named(share), f"{seconds:.1f}", each, *_money(server.count * COST, purse)


def _taken(
    server: VendorServer, names: Sequence[str], calls: int, in_flight: int, share: float | None
) -> tuple[Purse, float, list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        purse = Purse(Path(folder) / "spent.jsonl", most=share and share * calls * len(names) * COST)
        options = {"endpoint": f"{server.url}/v1", "key": "none", "concurrency": in_flight, "price": PRICE}
        store = CompletionStore(Path(folder) / "completions")
        models = [
            OpenAIModel.from_spec(ModelSpec(name, "openai", name, options | {"max_tokens": 150})) for name in names
        ]

        def request(model: OpenAIModel) -> None:
            try:
                Recording(model, store, purse=purse).complete(writings(calls))
            except MoneyError:
                return

        threads = [threading.Thread(target=request, args=(model,)) for model in models]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return purse, time.monotonic() - began, [store.count(model.identity) for model in models]


def _reply(request: Request, delay: float) -> Reply:
    reply = ok(request, tokens=TOKENS)
    reply.delay = delay
    return reply


def _named(share: float | None) -> str:
    return "none" if share is None else f"{share:g}"


def _money(bill: float, purse: Purse) -> tuple[str, str, str]:
    if purse.most is not None and not bill <= purse.spent + 1e-9 <= purse.most + 2e-9:
        raise AssertionError(f"a bill of {bill}, {purse.spent} paid, a cap of {purse.most}")
    return f"${bill:.4f}", f"${purse.spent:.4f}", "none" if purse.most is None else f"${purse.most:.4f}"
