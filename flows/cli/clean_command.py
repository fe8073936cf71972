"""`wasp clean`: says what the state folder holds and what a rule removes; removes it when told to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.interfaces.errors import ConfigError
from flows.runtime.manifest import alone
from flows.runtime.state_folder import state_folder
from flows.storage.inventory import KINDS, UNTOLD, StateFile
from flows.storage.removal import remove
from flows.storage.retention import AGE, Choice, Going, Retention, choose, now


def clean(rules: Retention, apply: bool) -> dict[str, Any]:
    """Return what lies in the state folder by kind, what goes and why, what stays although a rule names it.

    Nothing is removed unless `apply`. Runs that want to start meanwhile wait.
    """
    home = state_folder()
    with alone(home) as free:
        choice = choose(home, rules, now(), free)
        gone = remove(home, choice.going) if apply else choice.going
    return {
        "folder": str(home),
        "applied": apply,
        "rules": rules.model_dump(exclude_none=True),
        "kinds": _by_kind(choice, gone),
        "going": [_shown(one) for one in gone],
        "staying": list(choice.staying),
        "bytes": sum(one.bytes for one in gone if one.kind not in UNTOLD),
    }


def rules_of(values: Mapping[str, str | None]) -> Retention:
    """Return the rules that options of the command name; ConfigError with the option for an age that is none."""
    for name, age in values.items():
        if age is not None and not re.fullmatch(AGE, age):
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option} {age}: an age is a number and m, h, d or w: 90m, 12h, 30d, 4w")
    return Retention(**values)


def _by_kind(choice: Choice, gone: Sequence[Going]) -> list[dict[str, Any]]:
    found = []
    for kind in KINDS:
        files = [one for one in choice.files if one.kind == kind]
        going = [one for one in gone if one.kind == kind]
        sizes = {"bytes": _told(kind, files), "going": len(going), "going_bytes": _told(kind, going)}
        found += [{"kind": kind, "files": len(files)} | sizes] if files else []
    return found


def _told(kind: str, sized: Sequence[StateFile | Going]) -> int | None:
    return None if kind in UNTOLD else sum(one.bytes for one in sized)


def _shown(one: Going) -> dict[str, Any]:
    return {"path": one.path, "kind": one.kind, "bytes": _told(one.kind, [one]), "why": one.why, "run_id": one.run_id}
