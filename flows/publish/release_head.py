"""The release of a run as a classifier of its own, beside the texts of a bundle.

Where records are many for their classes, the class means of the released density classify better than any text that
they labelled. They are already paid for: whoever takes the bundle gets both, and at no further privacy loss.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from connectors.artifacts.store import Artifacts
from tasks.guidance.density import ClassMeans, class_means
from tasks.steps.values import GUIDANCE

FOLDER = "release_head"


def release_head_of(artifacts: Artifacts, run_id: str, classes: Sequence[str]) -> ClassMeans | None:
    """Return the class means of a run's released density; None without a density or without classes."""
    density = artifacts.stored(f"runs/{run_id}/{GUIDANCE}/release.parquet")
    if density is None or not classes:
        return None
    return class_means(artifacts, density)


def write_release_head(head: ClassMeans, encoder: str, folder: Path) -> None:
    """Write class means, their classes and the name of their encoder to a new folder.

    `means.npy`: float32 of shape (classes, dimension), rows of length 1 in the order of `classes`; the class of a text
    is the row with the largest product with its vector. A class without any record may have a row of length 0.
    """
    folder.mkdir()
    np.save(folder / "means.npy", head.means.astype(np.float32), allow_pickle=False)
    facts = {"classes": list(head.labels), "encoder": encoder}
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    (folder / "classes.json").write_text(f"{text}\n", encoding="utf-8")
