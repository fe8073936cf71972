"""The commands of what leaves: `wasp export` and `wasp verify-bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.common import Json, answer


def export(
    run_id: str,
    folder: Path,
    license_: Annotated[str, typer.Option("--license", help="Licence identifier for the card.")] = "other",
    overlap_check: Annotated[
        bool, typer.Option("--overlap-check/--no-overlap-check", help="Look for passages of private rows (not private)")
    ] = True,
    approval: Annotated[
        bool, typer.Option("--approval", help="Wait until a second person approves it on a page of the Prefect server.")
    ] = False,
    json_: Json = False,
) -> None:
    """Write what may leave, signed: synthetic rows, student, card; refused for a run that does not pass the gate."""
    from flows.cli import commands
    from flows.publish import bundle

    found = commands.export(run_id, folder, license_, overlap_check, approval)
    answer(found, json_, bundle.exported_words)


def verify_bundle(
    folder: Path,
    key: Annotated[Path | None, typer.Option(help="The sender's public key, had by another way.")] = None,
    json_: Json = False,
) -> None:
    """Check the signature and every file of a bundle; exit 1 and name what differs."""
    from flows.cli import commands
    from flows.publish import bundle

    found = commands.verify_bundle(folder, key)
    answer(found, json_, bundle.verified_words)
    if found["problems"]:
        raise SystemExit(1)
