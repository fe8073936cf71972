"""Claims: which caller on this machine requests a prompt.

Two callers that need the same completion must not both pay for it. Each claims prompts in the store shortly before it
requests them; the other one waits and reads. A claim ends with its completion, with its caller, with its caller's
process, or when it is no longer renewed.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
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


@contextmanager
def leased(store: CompletionStore, identity: str) -> Iterator[Claim]:
    """Yield a function that claims prompts; a thread renews the claims until the block ends."""
    owner = f"{process_name()}.{uuid4().hex[:16]}"
    ended, errors = threading.Event(), list[WaspError]()

    def renew() -> None:
        while not ended.wait(RENEW_SECONDS):
            try:
                store.renew_claims(identity, owner, LEASE_SECONDS)
            except WaspError as error:
                errors.append(error)
                return

    thread = threading.Thread(target=renew, name="wasp-claims", daemon=True)

    def claim(keys: Sequence[str]) -> Sequence[str]:
        if errors:
            raise errors[0]
        claimed = store.claim(identity, keys, owner, LEASE_SECONDS)
        if claimed and thread.ident is None:
            thread.start()
        return claimed

    try:
        yield claim
    finally:
        if thread.ident is not None:
            ended.set()
            thread.join()
            store.release_claims(identity, owner)
