"""What is told of guidance by a released density, beforehand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flows.config.base import WaspConfig
from tasks.accounting.density import GuidanceNoise, calibrate_density

if TYPE_CHECKING:
    from collections.abc import Callable

    from flows.config.base import AnyConfig
    from tasks.accounting.sensitivity import VotePrivacy
    from tasks.accounting.votes import Noise

KERNELS = {
    "cosine": "the average of their vectors",
    "gaussian": "random Fourier features of their vectors",
    "subspace": "their vectors along the main axes of the first round's texts, and products of these",
    "clusters": "how many lie in each cluster of the first round's texts",
}

USUAL_SHIFT = 0.3
"""How far private rows lie from synthetic texts on average, as measured on three data sets (0.25 to 0.6)."""


def density_plan(config: AnyConfig, noise: Noise) -> dict[str, Any] | None:
    """Return what the plan tells of a density; None where rows vote."""
    if not isinstance(config, WaspConfig) or not isinstance(noise, GuidanceNoise):
        return None
    method = config.method
    return {
        "kernel": method.density.name if method.density else "",
        "learns": method.density is not None and method.density.learns,
        "final_set": method.final_set,
        "moves": config.student.adaptation == "density",
        "result": method.result_size,
        "samples": method.samples,
    }


def density_lines(value: dict[str, Any], epsilon: Callable[[float | None], str]) -> list[str]:
    """Return what the release of a plan costs, line by line; `epsilon` words one."""
    density, unit = value["density"], value["protects"].split()[0]
    lines = [
        f"releases      1 density of the private rows per class ({KERNELS[density['kernel']]}), for all rounds; one "
        f"{unit} moves it by at most {value['sensitivity']:.4f} (L2)",
        f"protects      one {value['protects']}",
        *([f"group         {value['group']}: charged to all datasets of this group"] if value["group"] else []),
        f"noise         sigma {value['sigma']:.4f}, of features of length 1",
        f"epsilon       stated {epsilon(value['epsilon_stated'])}, exact {epsilon(value['epsilon_exact'])}, "
        f"delta {value['delta']:g}, {value['adjacency']}",
        "again         a later run on these rows with the same promise reads this release back, without a charge"
        + (", if the texts of its first round are the same" if density["learns"] else ""),
    ]
    if density["final_set"] == "matched":
        lines.append(f"final set     the {density['result']} of {density['samples']} texts that match it together")
    if density["moves"]:
        lines.append(
            "student       learns from vectors that were moved, class by class, to where the density says rows lie"
        )
    return lines


def about_density(config: WaspConfig, rows: int, classes: int, noise: GuidanceNoise) -> list[str]:
    """Return what is likely to go wrong with a density; public numbers only.

    The shift from texts to private rows that all classes have in common is compared with its noise along one
    direction, sigma sqrt(C) / rows. And where a class has hardly more texts in the first round than prompts show, all
    of them become examples, whatever the density says.
    """
    found, method = [], config.method
    index = density_index(rows, classes, noise)
    if index < 1:
        found.append(
            f"signal index {index:.2f} < 1: with {rows} rows the noise is louder than what tells private rows from "
            "texts, so the choice of examples is near chance; more rows or a larger epsilon help"
        )
    first = method.candidates // classes
    if first < 2 * method.examples:
        rounds = max(2, min(method.iterations, method.samples // (2 * method.examples * classes)))
        found.append(
            f"each class has {first} texts in the first round and prompts show {method.examples}, so that nearly all "
            f"become examples: set method.iterations to {rounds}, or write more texts"
        )
    return found


def density_index(rows: int, classes: int, noise: GuidanceNoise) -> float:
    """Return how a usual shift from texts to private rows compares with the noise on it; below 1 it is lost."""
    return USUAL_SHIFT * rows / (noise.sigma * math.sqrt(classes))


STRONG = 3.0
"""From this index on, with a matched final set, FID was below that of zero-shot texts on three data sets of four, and
about as high on the fourth."""


def instead_of_votes(config: WaspConfig, rows: int, classes: int, promise: VotePrivacy) -> str:
    """Return what to do where votes are lost in the noise: a density, if one would not be; empty if it would."""
    if config.parties is not None or promise.protects == "person":
        return ""
    noise = calibrate_density(replace(promise, calibration="tight", choice_share=0.0))
    if density_index(rows, classes, noise) < STRONG:
        return ""
    return "; method.guidance: kernel releases one density instead, which so many rows are enough for"
