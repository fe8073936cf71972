"""Define `wasp export` and `wasp verify-bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.common import Json, answer


def export(
    run_id: str,
    folder: Path,
    license_: Annotated[str, typer.Option("--license", help="Licence identifier for the dataset card.")] = "other",
    overlap_check: Annotated[
        bool,
        typer.Option("--overlap-check/--no-overlap-check", help="Search for copied private passages (not private)."),
    ] = True,
    approval: Annotated[
        bool, typer.Option("--approval", help="Wait until a second person approves the export in the Prefect UI.")
    ] = False,
    json_: Json = False,
) -> None:
    """Write a signed bundle of a run that passes the release gate."""
    from flows.cli import commands
    from flows.publish import bundle

    result = commands.export(run_id, folder, license_, overlap_check, approval)
    answer(result, json_, bundle.format_export)


def verify_bundle(
    folder: Path,
    key: Annotated[Path | None, typer.Option(help="The sender's public key, obtained through another channel.")] = None,
    json_: Json = False,
) -> None:
    """Check signature and files of a bundle; exit with code 1 on a difference, 3 if its key is unknown."""
    from flows.cli import commands
    from flows.publish import bundle

    result = commands.verify_bundle(folder, key)
    answer(result, json_, bundle.format_verification)
    if result["problems"]:
        raise SystemExit(1)
    if not result["key_known"]:
        raise SystemExit(3)
