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
    if machine != _machine():
        return None
    # With its start time: the system gives the id of an ended process to another one.
    return _start_time(int(pid)) == start


@lru_cache
def _machine() -> str:
    # Containers of one machine have their own process ids: the namespace distinguishes them.
    namespace = Path("/proc/self/ns/pid")
    space = ""
    if namespace.exists():
        space = str(namespace.readlink())
    # Start times count from the boot, so a name from before it must not fit a process of today.
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = ""
    if boot.exists():
        boot_id = boot.read_text()
    return digest([platform.node(), space, boot_id])[:12]


def _start_time(pid: int) -> str:
    """Return the start time of a process, '' if it has ended; 'unknown' without /proc."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return ""
        # Behind the last parenthesis: the name of the program before it can contain blanks and parentheses.
        state, *fields = stat.rpartition(")")[2].split()
        if state in "ZX":  # a zombie has ended, and holds nothing any more
            return ""
        return fields[18]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "unknown"
