"""State of the stack in a state folder: settings, started processes, and the lock."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError
from deployments.stack.processes import Service, Started, start
from deployments.stack.settings import Settings


class Stack:
    """The started processes, in order; stored after each start."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "stack"
        self.file = self.folder / "state.json"
        values = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        self.settings: dict[str, Any] = values.get("settings", {})
        self.started = {name: Started(**entry) for name, entry in values.get("services", {}).items()}

    def alive(self, name: str) -> bool:
        """Return True if a service is running."""
        return name in self.started and self.started[name].process() is not None

    def any_alive(self) -> bool:
        """Return True if any service is running."""
        return any(self.alive(name) for name in self.started)

    def start(self, service: Service, settings: Settings) -> bool:
        """Start a service unless it is running; return True if it was started."""
        if self.alive(service.name):
            return False
        self.started[service.name] = start(service, self.folder)
        self.settings = settings.plain()
        services = {name: asdict(process) for name, process in self.started.items()}
        write_text_whole(
            self.file, json.dumps({"settings": self.settings, "services": services}, indent=2), private=True
        )
        return True

    def forget(self) -> None:
        """Remove the files that are valid only while the stack runs."""
        for file in (self.file, self.folder / "env"):
            file.unlink(missing_ok=True)


@contextmanager
def lock_stack(folder: Path) -> Iterator[None]:
    """Lock a stack during `up` or `down`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{folder}: another make up or make down is active. Wait for it") from None
        yield
