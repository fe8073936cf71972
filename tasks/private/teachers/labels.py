"""Releases the number of private rows per class, with noise on every count (the tutor; Song et al. 2024, Eq. 3).

The paper adds noise to shares, which depend on the private number of rows. Here the noise is added to the counts;
clipping and dividing follow later (`tasks.writing.class_balance.shares_of`).
"""

from collections.abc import Sequence

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from tasks.accounting.integer_noise import SumNoise
from tasks.private.rows.rows import open_rows
from tasks.private.sums import AttackInputs, CleanSums, SumJob, require_part, write_sums
from tasks.private.teachers.promise import TeacherPrivacy
from tasks.steps.tools import Tools


def release_labels(
    tools: Tools, job: SumJob[TeacherPrivacy], classes: Sequence[str]
) -> tuple[ArtifactRef, str]:
    """Write the noisy number of rows per class, drawn now or read from the ledger."""

    def clean() -> CleanSums:
        rows = open_rows(tools.zone, tools.private, job.payer.fingerprint)
        return clean_labels(rows.labels, classes, job.noise)

    return write_sums(tools, job, clean)


def clean_labels(
    labels: Sequence[str], classes: Sequence[str], noise: SumNoise[TeacherPrivacy]
) -> CleanSums:
    """Return the counts without noise, (1, classes), in integer steps.

    A row of an unknown class adds nothing.
    """
    require_part(noise, "labels")
    codes = {name: code for code, name in enumerate(classes)}
    counts = np.zeros((1, len(codes)), dtype=np.int64)
    for label in labels:
        if label in codes:
            counts[0, codes[label]] += noise.privacy.steps
    return CleanSums(counts)


def canary(noise: SumNoise[TeacherPrivacy]) -> AttackInputs:
    """Return the attack: the canary is a row."""
    classes = "first class", "second class"
    labels = classes[:1] + classes[1:] * 3
    return AttackInputs(
        labels, (*labels, classes[0]), lambda rows: clean_labels(rows, classes, noise)
    )
