"""Prefect tasks of the audit: the attack on a release, and the artifacts that show the results."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact
from prefect.states import Completed

from connectors.interfaces.progress import Advance
from tasks.audit.attacks import Attack, run_attack
from tasks.prefect.runtime import step

Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""Opens a progress bar: (name, number of units)."""


@step("attack {job.name}", retries=0)
def attack(progress: Progress, job: Attack) -> Any:
    """Infer from releases of one mechanism whether a synthetic record took part."""
    with progress(f"attack {job.name}", 2 * job.trials) as advance:
        finding = run_attack(job, advance)
    return Completed(name="Completed" if finding.passed else "Red", message=finding.strongest.remark, data=finding)


@step("show findings")
def show_findings(rows: Sequence[Mapping[str, Any]], verdict: str, figures: Mapping[str, bytes]) -> None:
    """Show the audit on the run's page: a row per mechanism, a verdict and figures."""
    create_table_artifact([dict(row) for row in rows], key="audit", description="Claimed and proven epsilon")
    create_markdown_artifact(verdict, key="audit-verdict", description="Result of the audit")
    for name, figure in figures.items():
        url = "data:image/png;base64," + base64.b64encode(figure).decode()
        create_image_artifact(url, key=name, description=name.replace("-", " "))
