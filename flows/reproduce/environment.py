"""The machine and the software of a reproduction, as its page states them."""

import os
import platform
from pathlib import Path

from connectors.interfaces.counts import sized
from connectors.interfaces.machine import machine_memory
from flows.runtime.manifest import code_commit, versions


def environment() -> dict[str, str]:
    """Return processor, memory, versions and commit."""
    facts = {
        "processor": f"{_processor()}, {os.cpu_count()} cores, {sized(machine_memory())} of memory",
        "accelerator": _accelerator(),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {version}" for name, version in versions().items()),
        # A machine of another kind may round vectors differently.
        "threads": os.environ.get("OMP_NUM_THREADS") or "as libraries choose",
    }
    commit = code_commit()
    if commit:
        facts["commit"] = commit
    return facts


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _accelerator() -> str:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return "none"
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return "none"
