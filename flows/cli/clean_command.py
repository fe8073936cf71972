"""Implement `wasp clean`: list the state folder and apply retention rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.interfaces.errors import ConfigError
from flows.runtime.manifest import alone
from flows.runtime.state_folder import state_folder
from flows.storage.going import Going
from flows.storage.inventory import KINDS, UNTOLD, StateFile
from flows.storage.removal import remove
from flows.storage.retention import AGE, Retention, RetentionChoice, choose, now


def clean(rules: Retention, apply: bool) -> dict[str, Any]:
    """Return the files by kind, the removed files and the retained files.

    Files are removed only with `apply`. New runs wait until this finishes.
    """
    home = state_folder()
    with alone(home) as free:
        choice = choose(home, rules, now(), free)
        removed = remove(home, choice.going) if apply else choice.going
    return {
        "folder": str(home),
        "applied": apply,
        "rules": rules.model_dump(exclude_none=True),
        "kinds": _by_kind(choice, removed),
        "going": [_row(file) for file in removed],
        "staying": list(choice.staying),
        "bytes": sum(file.bytes for file in removed if file.kind not in UNTOLD),
    }


def rules_of(values: Mapping[str, str | None]) -> Retention:
    """Return the retention rules of the command's options.

    ConfigError names the option of an invalid age.
    """
    for name, age in values.items():
        if age is not None and not re.fullmatch(AGE, age):
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option}: '{age}' is not an age. Write an age such as 90m, 12h, 30d or 4w.")
    return Retention(**values)


def _by_kind(choice: RetentionChoice, removed: Sequence[Going]) -> list[dict[str, Any]]:
    rows = []
    for kind in KINDS:
        files = [file for file in choice.files if file.kind == kind]
        going = [file for file in removed if file.kind == kind]
        sizes = {"bytes": _size_of(kind, files), "going": len(going), "going_bytes": _size_of(kind, going)}
        rows += [{"kind": kind, "files": len(files)} | sizes] if files else []
    return rows


def _size_of(kind: str, files: Sequence[StateFile | Going]) -> int | None:
    return None if kind in UNTOLD else sum(file.bytes for file in files)


def _row(file: Going) -> dict[str, Any]:
    size = _size_of(file.kind, [file])
    return {"path": file.path, "kind": file.kind, "bytes": size, "why": file.why, "run_id": file.run_id}
