"""Machines of a small network: namespaces on one bridge, each with an address and a cable that can be pulled."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MISSING = "network namespaces need root and the program ip (iproute2)"


@dataclass(frozen=True)
class Machine:
    """A network namespace; it shares files and processors with the others, and nothing of the network."""

    name: str
    address: str

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, **options: Any
    ) -> "subprocess.Popen[str]":
        """Start a program on the machine."""
        inside = ["ip", "netns", "exec", self.name, *command]
        return subprocess.Popen(inside, cwd=folder, env=environment, text=True, **options)

    def pull_cable(self) -> None:
        """Take the machine off the network; its programs go on and notice nothing at first."""
        _ip("link", "set", f"{self.name}-out", "down")

    def plug_cable(self) -> None:
        """Take the machine back into the network."""
        _ip("link", "set", f"{self.name}-out", "up")


@contextmanager
def network(number: int) -> Iterator[tuple[str, list[Machine]]]:
    """Make a network of some machines; the value is the address of this machine in it, and the others."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip(MISSING)
    process = os.getpid()
    # The range for networks between test devices: no other network has it.
    prefix = f"198.18.{process % 256}"
    bridge = f"w{process}"
    with ExitStack() as stack:
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "delete", bridge)
        _ip("address", "add", f"{prefix}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        machines = []
        for index in range(number):
            machine = Machine(f"{bridge}-{index}", f"{prefix}.{index + 2}")
            _ip("netns", "add", machine.name)
            stack.callback(_ip, "netns", "delete", machine.name)
            outer = f"{machine.name}-out"
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
            _ip("link", "set", outer, "master", bridge, "up")
            _ip("-netns", machine.name, "address", "add", f"{machine.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-netns", machine.name, "link", "set", device, "up")
            machines.append(machine)
        yield f"{prefix}.1", machines


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
