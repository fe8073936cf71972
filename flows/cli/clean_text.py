"""What `wasp clean` prints: what the state folder holds by kind, what goes and what stays."""

from __future__ import annotations

from typing import Any

from flows.engine.text import table


def cleaned(value: dict[str, Any]) -> str:
    """Show what the state folder holds by kind, what goes or went, and what stays although a rule names it."""
    did = "removed" if value["applied"] else "would go"
    rows = [
        [one["kind"], one["files"], size(one["bytes"]), one["going"] or "-", size(one["going_bytes"])]
        for one in value["kinds"]
    ]
    lines = [table(rows, ["kind", "files", "size", did, "of size"]), ""]
    lines += [f"stays       {reason}" for reason in value["staying"]]
    groups: dict[tuple[str, str, str], list[int | None]] = {}
    for one in value["going"]:
        groups.setdefault((one["kind"], one["run_id"], one["why"]), []).append(one["bytes"])
    for (kind, run_id, why), sizes in groups.items():
        told = "size not told" if None in sizes else size(sum(each for each in sizes if each is not None))
        lines.append(f"{did:<10}  {kind}{' of ' if run_id else ''}{run_id}: {len(sizes)}, {told}; {why}")
    if value["applied"]:
        return "\n".join([*lines, f"{size(value['bytes'])} removed"])
    return "\n".join([*lines, "nothing was removed; to do it: the same with --yes" if groups else "nothing would go"])


def size(count: int | None) -> str:
    """Return a number of bytes for people; None is not told."""
    if count is None:
        return "not told"
    if count < 1000:
        return f"{count} B"
    unit = "kB" if count < 1e6 else "MB" if count < 1e9 else "GB"
    return f"{count / {'kB': 1e3, 'MB': 1e6, 'GB': 1e9}[unit]:.1f} {unit}"
