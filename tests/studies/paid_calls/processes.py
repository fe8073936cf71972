"""Processes that need the same completions, or are killed: what the server counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from connectors.interfaces.models import ModelSpec
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import Purse
from connectors.models.vendors.batches import BatchModel
from tests.support.paths import ROOT
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_batches import BatchBook
from tests.support.servers.vendor_models import IN_FLIGHT, VENDORS, recording, writings

COLUMNS = ("case", "prompts", "requests", "answered twice", "stored")
BATCH_COLUMNS = ("case", "prompts", "batches", "prompts handed in", "stored", "bill", "paid from the purse")
PRICE = {"input": 1000.0, "output": 3000.0}
BATCHED = 200
CASES = ("whole", "killed while it waits", "response of the submission lost", "queue of 80 requests")
CHILD = """
import sys
from pathlib import Path
from tests.support.servers.vendor_models import recording, writings
from tests.studies.paid_calls.processes import batched
vendor, url, folder, prompts = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
model = recording(vendor, url, folder) if prompts else batched(vendor, url, folder)
model.complete(writings(prompts or 200))
"""


def shared() -> Iterator[Sequence[object]]:
    """Start several processes with the same 1,000 prompts and one store."""
    for number, wait in ((2, 0.0), (2, 1.0), (3, 0.0)):
        with tempfile.TemporaryDirectory() as folder, VendorServer(latency=0.02) as server:
            children = []
            for _ in range(number):
                children.append(_child("openai", server, folder, 1000))
                time.sleep(wait)
            ended = [child.wait() for child in children]
            case = f"{number} processes" + (f", {wait:g} s apart" if wait else "")
            yield _counted(f"{case}, exit {ended}", server, folder, 1000)


def killed() -> Iterator[Sequence[object]]:
    """Kill a process in the middle of 300 prompts, and request them again."""
    for vendor in VENDORS:
        for after in (1, 50, 150, 299):
            with tempfile.TemporaryDirectory() as folder, VendorServer(latency=0.03) as server:
                child = _child(vendor, server, folder, 300)
                while server.count < after and child.poll() is None:
                    time.sleep(0.001)
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
                recording(vendor, server.url, Path(folder)).complete(writings(300))
                yield _counted(f"{vendor}, killed after {after}, {IN_FLIGHT} in flight", server, folder, 300)


def batches() -> Iterator[Sequence[object]]:
    """Request 200 prompts as batches: whole, killed, with a lost response, with a small queue."""
    for vendor in VENDORS:
        for case in CASES if vendor == "openai" else CASES[:3]:
            book = BatchBook(looks=200 if "killed" in case else 2, forget_submission="lost" in case)
            book.room = 80 if "queue" in case else None
            with tempfile.TemporaryDirectory() as folder, VendorServer(plan=book) as server:
                book.url = lambda server=server: server.url
                if "killed" in case:
                    child = _child(vendor, server, folder, 0)
                    while not any(batch["seen"] > 3 for batch in book.batches.values()) and child.poll() is None:
                        time.sleep(0.001)
                    os.kill(child.pid, signal.SIGKILL)
                    child.wait()
                    book.looks = 2
                model = batched(vendor, server.url, Path(folder))
                model.complete(writings(BATCHED))
                yield f"{vendor}, {case}", BATCHED, *_billed(book, model)


def batched(vendor: str, url: str, folder: Path) -> Recording:
    """Return a model whose completions come from batches at half the price."""
    connector, suffix = VENDORS[vendor]
    options = {
        "endpoint": url + suffix,
        "key": "none",
        "price": PRICE,
        "pace": {"first_wait": 0.01, "longest_wait": 0.02},
    }
    inner = connector.from_spec(ModelSpec("writer", vendor, "m", options | {"max_tokens": 60}))
    purse = Purse(folder / "spent.jsonl", most=1000.0)
    return Recording(BatchModel(inner, folder / "batches", poll=0.01), CompletionStore(folder / "store"), purse=purse)


def _billed(book: BatchBook, model: Recording) -> Sequence[object]:
    accepted = [batch for batch in book.batches.values() if not batch["failed"]]
    assert model.purse is not None
    handed_in = sum(len(batch["asked"]) for batch in accepted)
    stored = model.store.count(model.store_key)
    bill = handed_in * (11 * PRICE["input"] + 7 * PRICE["output"]) / 2e6
    return len(accepted), handed_in, stored, f"${bill:.3f}", f"${model.purse.spent:.3f}"


def _child(vendor: str, server: VendorServer, folder: str, prompts: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, vendor, server.url, folder, str(prompts)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def _counted(case: str, server: VendorServer, folder: str, prompts: int) -> Sequence[object]:
    store = CompletionStore(Path(folder))
    stored = sum(store.count(identity) for identity in store.identities())
    return case, prompts, server.count, sum(count - 1 for count in server.prompts.values()), stored
