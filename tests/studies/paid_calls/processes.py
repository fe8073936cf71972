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

from connectors.models.base.completion_store import CompletionStore
from tests.support.paths import ROOT
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_models import IN_FLIGHT, VENDORS, recording, writings

COLUMNS = ("case", "prompts", "requests", "answered twice", "stored")
CHILD = """
import sys
from pathlib import Path
from tests.support.servers.vendor_models import recording, writings
vendor, url, folder, prompts = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
recording(vendor, url, folder).complete(writings(prompts))
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


def _child(vendor: str, server: VendorServer, folder: str, prompts: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, vendor, server.url, folder, str(prompts)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def _counted(case: str, server: VendorServer, folder: str, prompts: int) -> Sequence[object]:
    store = CompletionStore(Path(folder))
    stored = sum(store.count(identity) for identity in store.identities())
    return case, prompts, server.count, sum(count - 1 for count in server.prompts.values()), stored
