"""Format the output of `wasp clean`."""

from __future__ import annotations

from typing import Any

from flows.engine.text import table


def cleaned(value: dict[str, Any]) -> str:
    """Return the files by kind, the removed files and the retained files as text."""
    action = "removed" if value["applied"] else "to remove"
    rows = [
        [kind["kind"], kind["files"], size(kind["bytes"]), kind["going"] or "-", size(kind["going_bytes"])]
        for kind in value["kinds"]
    ]
    lines = [table(rows, ["kind", "files", "size", action, "freed"]), ""]
    lines += [f"kept        {reason}" for reason in value["staying"]]
    groups: dict[tuple[str, str, str], list[int | None]] = {}
    for file in value["going"]:
        groups.setdefault((file["kind"], file["run_id"], file["why"]), []).append(file["bytes"])
    for (kind, run_id, why), sizes in groups.items():
        total = "size hidden" if None in sizes else size(sum(count for count in sizes if count is not None))
        lines.append(f"{action:<10}  {kind}{' of ' if run_id else ''}{run_id}: {len(sizes)}, {total}; {why}")
    if value["applied"]:
        return "\n".join([*lines, f"{size(value['bytes'])} removed"])
    return "\n".join([*lines, "Nothing was removed. To remove, add --yes." if groups else "Nothing to remove."])


def size(count: int | None) -> str:
    """Return a readable byte count; None means the size is hidden."""
    if count is None:
        return "hidden"
    if count < 1000:
        return f"{count} B"
    unit = "kB" if count < 1e6 else "MB" if count < 1e9 else "GB"
    return f"{count / {'kB': 1e3, 'MB': 1e6, 'GB': 1e9}[unit]:.1f} {unit}"
