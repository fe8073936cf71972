"""The command `wasp clean`: apply retention rules to the state folder."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.interfaces.json_values import Json
from flows.cli.common import Output
from flows.runtime.manifest import lock_caches
from flows.runtime.state_folder import state_folder

if TYPE_CHECKING:
    from flows.storage.retention import Item, Retention

AGE_HELP = "Age like 90m, 12h, 30d, 4w"


def clean(
    intermediate: Annotated[
        str | None,
        typer.Option(
            "--intermediate-older-than",
            help=f"{AGE_HELP}; texts by model of finished runs, embeddings, caches. Completions are paid again if "
            "needed.",
        ),
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(
            "--runs-older-than",
            help=f"{AGE_HELP}; also synthetic rows and student of runs, finished or not.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove the files. Default: only show them.")
    ] = False,
) -> Output:
    """Show the files to remove; --yes removes them.

    Releases, the privacy ledger, its key, manifests, summaries and reports are never removed.
    """
    from flows.config.files import check_config
    from flows.storage.retention import Retention

    ages = {"intermediate_older_than": intermediate, "runs_older_than": runs}
    return Output(clean_folder(check_config(Retention, ages, "wasp clean"), yes), cleaned)


def clean_folder(rules: Retention, apply: bool) -> Json:
    """Return the removed files, and reasons why others stay.

    Files are removed only with `apply`. New runs wait until this finishes.
    """
    from flows.storage.removal import remove
    from flows.storage.retention import choose

    home = state_folder()
    # Chosen and removed under one lock: a run that starts in between would use a file that is about to go.
    with lock_caches(home) as free:
        choice = choose(home, rules, datetime.now(UTC), free)
        removed = remove(home, choice.going) if apply else choice.going
    return {
        "folder": str(home),
        "applied": apply,
        "rules": rules.model_dump(exclude_none=True),
        "going": [
            {"path": g.path, "kind": g.kind, "bytes": _size_of(g), "why": g.why, "run_id": g.run_id}
            for g in removed
        ],
        "staying": list(choice.staying),
        "bytes": sum(_size_of(file) or 0 for file in removed),
    }


def cleaned(value: Json) -> str:
    """Return the removed files, and reasons why others stay, as text."""
    from rich.filesize import decimal

    action = "removed" if value["applied"] else "to remove"
    lines = [f"kept        {reason}" for reason in value["staying"]]
    groups: dict[tuple[str, str, str], list[int | None]] = {}
    for file in value["going"]:
        groups.setdefault((file["kind"], file["run_id"], file["why"]), []).append(file["bytes"])
    for (kind, run_id, why), sizes in groups.items():
        known = [size for size in sizes if size is not None]
        total = decimal(sum(known)) if len(known) == len(sizes) else "size hidden"
        of_run = f" of {run_id}" if run_id else ""
        lines.append(f"{action:<10}  {kind}{of_run}: {len(sizes)}, {total}; {why}")
    if value["applied"]:
        lines.append(f"{decimal(value['bytes'])} removed")
    elif groups:
        lines.append("Nothing was removed. To remove, add --yes.")
    else:
        lines.append("Nothing to remove.")
    return "\n".join(lines)


def _size_of(item: Item) -> int | None:
    """Return the size of an item; None for private caches, whose size reveals the number of private rows."""
    from flows.storage.retention import PRIVATE

    if item.kind == PRIVATE:
        return None
    return item.bytes
