"""The Prefect face of the audit: attacks on mechanisms and on a whole run, and what the run's page shows of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact
from prefect.states import Completed

from connectors.interfaces.progress import Advance
from tasks.audit.attacks import Attack, run_attack
from tasks.prefect.runtime import step

Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""Shows one piece of work of so many units."""


class Trial(Protocol):
    """The attack on one whole run: how much work it is, and what it finds."""

    @property
    def units(self) -> int:
        """Units of work."""

    def carry_out(self, advance: Advance) -> dict[str, Any]:
        """Run and attack."""


@step("attack {job.name}", retries=0)
def attack(progress: Progress, job: Attack) -> Any:
    """Try to tell whether a made-up record took part in runs of one mechanism."""
    with progress(f"attack {job.name}", 2 * job.trials) as advance:
        found = run_attack(job, advance)
    return Completed(name="Completed" if found.passed else "Red", message=found.strongest.remark, data=found)


@step("attack a whole run", retries=0)
def attack_pipeline(progress: Progress, trial: Trial) -> Any:
    """Carry out a run with planted canaries and try to tell who of them took part."""
    with progress("whole run with canaries", trial.units) as advance:
        found = trial.carry_out(advance)
    proven = f"epsilon {found['epsilon_proven']:.4f} is proven at least"
    return Completed(name="Completed" if found["passed"] else "Red", message=proven, data=found)


@step("show findings")
def show_findings(rows: Sequence[Mapping[str, Any]], words: str, pictures: Mapping[str, bytes]) -> None:
    """Show the audit on the run's page: one row per mechanism, the verdict in words, and its figures."""
    create_table_artifact([dict(row) for row in rows], key="audit", description="Claimed and proven epsilon")
    create_markdown_artifact(words, key="audit-verdict", description="What the audit found")
    for name, picture in pictures.items():
        url = "data:image/png;base64," + base64.b64encode(picture).decode()
        create_image_artifact(url, key=name, description=name.replace("-", " "))
