"""Step of the tutor: noisy label counts (Song et al. 2024, Eq. 3).

Only tasks/private/releases/label_counts.py reads private rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Payer
from tasks.core.step import paid_step
from tasks.core.tools import Tools
from tasks.private.releases.label_counts import release_labels
from tasks.private.releases.sums import sum_job
from tasks.text.class_balance import Shares, shares_of

if TYPE_CHECKING:
    from tasks.accounting.sums import SumNoise
    from tasks.accounting.teachers import TeacherPrivacy


@paid_step("count labels")
def count_labels(
    tools: Tools, payer: Payer, noise: SumNoise[TeacherPrivacy], labels: tuple[str, ...]
) -> tuple[ArtifactRef, str]:
    """Release the number of private rows per class to labels/release.parquet."""
    job = sum_job(tools, payer, noise, {"numbers": noise.privacy.numbers, "labels": list(labels)}, {})
    return release_labels(tools, job, labels)


def read_shares(tools: Tools, release: ArtifactRef) -> Shares:
    """Return the tutor's class shares from a release of label counts."""
    return shares_of(tools.artifacts.read_table(release)["sum"].to_numpy())
