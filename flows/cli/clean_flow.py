"""`wasp clean` as a flow, so that retention can be scheduled: its run page says what went and why."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact

from flows.cli.clean_command import clean as clean_folder
from flows.cli.clean_text import cleaned
from flows.runtime.state_folder import state_folder
from flows.storage.retention import Retention


@flow(name="clean", validate_parameters=True)
def clean(rules: Retention | None = None, remove: bool = False) -> dict[str, Any]:
    """Remove from the state folder what the rules name; releases, budget book and reports always stay.

    Args:
        rules: what goes by age; without a rule only what nobody can use any more.
        remove: remove it; off: only say what would go.

    Returns:
        What `wasp clean --json` prints.
    """
    done = clean_folder(rules or Retention(), remove)
    create_markdown_artifact(f"`{state_folder()}`\n```\n{cleaned(done)}\n```", key="clean", description="What went")
    create_table_artifact(done["kinds"], key="state-folder", description="What the state folder holds")
    return done
