"""The noise of one released density: one sum of features per class.

The release serves all rounds and later runs.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

from tasks.accounting.composition import Adjacency
from tasks.accounting.integer_noise import Kind, check_promise
from tasks.accounting.promise import Protects
from tasks.steps.values import GUIDANCE

COUNTING: Final = 0.1
"""Part of a row's squared length in its constant feature."""

FEATURE_STEPS: Final = 2**14
"""Integer steps of a feature; features are truncated to whole steps, which makes no vector longer."""


@dataclass(frozen=True, slots=True)
class DensityPrivacy:
    """The privacy promise of a density for a row, or for a person with at most `rows_per_person` rows.

    Every number is public. Features have a length of at most 1 per row. Infinite epsilon: no noise.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = "add_remove"
    protects: Protects = "record"
    rows_per_person: int = 1
    part: ClassVar = GUIDANCE
    steps: ClassVar = FEATURE_STEPS
    calibration: ClassVar = "tight"
    printed_scale: ClassVar = None
    limits: ClassVar = {"protects": ("record", "person")}
    sizes: ClassVar = ("rows_per_person",)

    def __post_init__(self) -> None:
        check_promise(self)

    @property
    def kind(self) -> Kind:
        """Gaussian noise, or none."""
        return "none" if math.isinf(self.epsilon) else "gaussian"

    @property
    def sensitivity(self) -> float:
        """The L2 distance by which one row or person moves the sums of all classes.

        A row adds its features, whose length is at most 1, to the sum of its class and nothing to the others. Features
        are truncated towards zero to whole steps, which only shortens them: 1. A person adds the average of their rows'
        features, over all classes, which is no longer than the longest: 1.

        Replacing a row by one of another class moves two sums by at most 1 each: sqrt(2). In the same class the
        constant features of both rows cancel, because they are equal integers, and the rest of each is no longer than
        sqrt(1 - s), with s = COUNTING: 2 sqrt(1 - s), which is larger. The bound of a row that adds nothing is 1.
        Replacing a person: 2, because truncation of averages can leave different constants.
        """
        if self.adjacency != "replace_one":
            return 1.0
        if self.protects == "person":
            return 2.0
        return max(2 * math.sqrt(1 - COUNTING), math.sqrt(2))

    @property
    def reason(self) -> str:
        """Why one row or person moves the sums no further."""
        if self.protects == "person":
            what = f"one person adds the average features of at most {self.rows_per_person} row(s), over all classes"
            moved = "replacing it moves as much again"
        else:
            what = "one row adds its features to the sum of its class"
            moved = "the constants of two rows cancel"
        if self.adjacency != "replace_one":
            return f"{what}: no longer than 1 (L2)"
        return f"{what}: no longer than 1 (L2); {moved}: {self.sensitivity:.4f}"
