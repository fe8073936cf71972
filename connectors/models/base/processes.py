"""Names of processes, under which they own claims and reserve money in files that several processes share."""

import os
import platform
from functools import lru_cache
from pathlib import Path

from connectors.interfaces.content_keys import digest


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
            state, *fields = (
                Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            )
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
