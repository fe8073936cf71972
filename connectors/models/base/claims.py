"""Claims: which caller on this machine requests a prompt.

Two callers that need the same completion must not both pay for it. Each claims prompts in the store shortly before it
requests them; the other one waits and reads. A claim ends with its completion, with its caller, with its caller's
process, or when it is no longer renewed.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import WaspError

if TYPE_CHECKING:
    from connectors.models.base.completion_store import CompletionStore

Claim = Callable[[Sequence[str]], Sequence[str]]
"""Returns the prompt keys that may be requested here; others have a completion, or are requested elsewhere."""

LEASE_SECONDS = 12.0
"""Time after which a claim that is not renewed ends."""

RENEW_SECONDS = 2.0


def process_name() -> str:
    """Return a name of this process that no other process of any machine has or had."""
    return f"{_machine()}.{os.getpid()}.{_start_time(os.getpid())}"


def is_running(process: str) -> bool | None:
    """Return the state of a process of `process_name`; None if it is on another machine or in another container."""
    machine, pid, start = process.split(".")[:3]
    return _start_time(int(pid)) == start if machine == _machine() else None


@lru_cache
def _machine() -> str:
    # Containers of one machine have their own process ids: the namespace tells them apart.
    namespace = Path("/proc/self/ns/pid")
    space = str(namespace.readlink()) if namespace.exists() else ""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return digest([platform.node(), space, boot.read_text() if boot.exists() else ""])[:12]


def _start_time(pid: int) -> str:
    """Return the start time of a process, '' if it has ended; 'unknown' without /proc."""
    if Path("/proc/self/stat").exists():
        try:
            state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return ""
        return "" if state in "ZX" else fields[18]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "unknown"


class Lease:
    """The claims of one call, renewed in a thread until the call ends."""

    def __init__(self, store: CompletionStore, identity: str) -> None:
        self.store, self.identity = store, identity
        self.owner = f"{process_name()}.{uuid4().hex[:16]}"
        self._ended = threading.Event()
        self._renewals: threading.Thread | None = None
        self._error: WaspError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewals is not None:
            self._ended.set()
            self._renewals.join()
            self.store.release_claims(self.identity, self.owner)

    def claim(self, keys: Sequence[str]) -> list[str]:
        """Claim prompts; return those that nobody else requests and that have no completion."""
        if self._error is not None:
            raise self._error
        claimed = self.store.claim(self.identity, keys, self.owner, LEASE_SECONDS)
        if claimed and self._renewals is None:
            self._renewals = threading.Thread(target=self._renew, name="wasp-claims", daemon=True)
            self._renewals.start()
        return claimed

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                self.store.renew_claims(self.identity, self.owner, LEASE_SECONDS)
            except WaspError as error:
                self._error = error  # raised in the thread of the call, with its next claim
                return
