"""Items that `wasp clean` removes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Going:
    """An item to remove: a file, a folder, completions `before` a time, or a run in MLflow (`tracked`: address, id)."""

    path: str
    kind: str
    bytes: int
    why: str
    run_id: str = ""
    users: tuple[str, ...] = ()
    before: datetime | None = None
    tracked: tuple[str, str] | None = None


def day(when: datetime) -> str:
    """Return a time as shown in reasons, in UTC to the minute."""
    return when.astimezone(UTC).isoformat(sep=" ", timespec="minutes")[:16]
