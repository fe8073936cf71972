"""What is told of guidance by a released density, beforehand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flows.params import WaspConfig
from tasks.guidance_noise import GuidanceNoise

if TYPE_CHECKING:
    from collections.abc import Callable

    from flows.params import AnyConfig
    from tasks.accounting import Noise

KERNELS = {"cosine": "the average of their vectors", "gaussian": "random Fourier features of their vectors"}

USUAL_SHIFT = 0.3
"""How far private rows lie from synthetic texts on average, as measured on three data sets (0.25 to 0.6)."""


def density_plan(config: AnyConfig, noise: Noise) -> dict[str, Any] | None:
    """Return what the plan tells of a density; None where rows vote."""
    if not isinstance(config, WaspConfig) or not isinstance(noise, GuidanceNoise):
        return None
    method = config.method
    return {
        "kernel": method.kernel,
        "final_set": method.final_set,
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
        "again         a later run on these rows with the same promise reads this release back, without a charge",
    ]
    if density["final_set"] == "matched":
        lines.append(f"final set     the {density['result']} of {density['samples']} texts that match it together")
    return lines


def about_density(rows: int, classes: int, noise: GuidanceNoise) -> list[str]:
    """Return a warning where the shift from texts to private rows is likely lost in the noise; public numbers only.

    Compared is the shift that all classes have in common with its noise along one direction: sigma sqrt(C) / rows.
    """
    index = USUAL_SHIFT * rows / (noise.sigma * math.sqrt(classes))
    if index >= 1:
        return []
    return [
        f"signal index {index:.2f} < 1: with {rows} rows the noise is louder than what tells private rows from texts, "
        "so the choice of examples is near chance; more rows or a larger epsilon help"
    ]
