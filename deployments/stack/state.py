"""What is known about the stack of a state folder: settings, processes, and who works on it now."""

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
    """The processes that were started, in order; written down after each start."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "stack"
        self.place = self.folder / "state.json"
        values = json.loads(self.place.read_text(encoding="utf-8")) if self.place.exists() else {}
        self.settings: dict[str, Any] = values.get("settings", {})
        self.started = {name: Started(**one) for name, one in values.get("services", {}).items()}

    def alive(self, name: str) -> bool:
        """Say whether a service runs."""
        return name in self.started and self.started[name].process() is not None

    def any_alive(self) -> bool:
        """Say whether anything of the stack runs."""
        return any(self.alive(name) for name in self.started)

    def start(self, service: Service, settings: Settings) -> bool:
        """Start a service unless it runs; say whether it was started now."""
        if self.alive(service.name):
            return False
        self.started[service.name] = start(service, self.folder)
        self.settings = settings.plain()
        values = {"settings": self.settings, "services": {name: asdict(one) for name, one in self.started.items()}}
        write_text_whole(self.place, json.dumps(values, indent=2), private=True)
        return True

    def forget(self) -> None:
        """Remove what holds only while the stack runs."""
        for place in (self.place, self.folder / "env"):
            place.unlink(missing_ok=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a stack for one `up` or `down`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"Another make up or make down works on {folder}; wait for it") from None
        yield
