"""The Prefect face of the audit: attacks on mechanisms, and what the run's page shows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.states import Completed

from connectors.base import Advance
from tasks.attack import Attack, carry_out
from tasks.steps import step

Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""Shows one piece of work of so many units."""


@step("attack {job.name}", retries=0)
def attack(progress: Progress, job: Attack) -> Any:
    """Try to tell whether a made-up record took part in runs of one mechanism."""
    with progress(f"attack {job.name}", 2 * job.trials) as advance:
        found = carry_out(job, advance)
    return Completed(name="Completed" if found.passed else "Red", message=found.strongest.remark, data=found)


@step("show findings")
def show_findings(rows: Sequence[Mapping[str, Any]], words: str) -> None:
    """Show the audit on the run's page: one row per mechanism, and the verdict in words."""
    create_table_artifact([dict(row) for row in rows], key="audit", description="Claimed and proven epsilon")
    create_markdown_artifact(words, key="audit-verdict", description="What the audit found")
