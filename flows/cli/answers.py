"""Define `wasp answers ...`, the commands of the stored completions."""

from __future__ import annotations

from pathlib import Path

import typer

from connectors.interfaces.errors import ConfigError
from flows.cli.common import Commands, Json, answer

answers = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Export or repair the stored completions of language models.",
)


@answers.command("export")
def export(file: Path, json_: Json = False) -> None:
    """Export all stored completions to a Parquet file for `recorded` models."""
    from connectors.models.base.completion_store import CompletionStore
    from flows.runtime.state_folder import state_folder

    if file.exists():
        raise ConfigError(f"{file}: file exists. Name a new file.")
    count = CompletionStore(state_folder() / "completions").export_parquet(file)
    value = {"file": str(file), "answers": count}
    answer(value, json_, lambda value: f"{value['answers']} completions in {value['file']}")


@answers.command("repair")
def repair(json_: Json = False) -> None:
    """Rewrite damaged files of completions from what can be read; keep the damaged ones."""
    from connectors.models.base.store_repair import repair as repair_files
    from flows.runtime.state_folder import state_folder

    repaired = repair_files(state_folder() / "completions")
    lines = [
        f"{file.file}: {file.kept} completions kept, {file.lost} lost; before: {file.damaged}" for file in repaired
    ]
    value = {"files": [file.values() for file in repaired]}
    answer(value, json_, lambda _: "\n".join(lines) or "No file is damaged.")
