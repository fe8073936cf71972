"""The manifest of a run of a method, from what was prepared."""

from dataclasses import asdict
from pathlib import Path

from connectors.interfaces.json_values import Json
from flows.config.task_files import task_place
from flows.engine.prepare import Prepared
from flows.runtime.manifest import RunManifest, initial_values, now, read_manifest


def open_manifest(flow: str, prepared: Prepared, keep_choice: bool = False) -> RunManifest:
    """Return the manifest of a run that starts or resumes.

    The time of the first start is preserved. `keep_choice`: preserve the earlier `privacy.on_lost_artifacts`, because
    `wasp resume --respend` applies only once.
    """
    name = prepared.tools.run_name
    artifacts = prepared.tools.artifacts
    earlier = read_manifest(artifacts, name.run_id)
    config = manifest_config(prepared)
    if keep_choice and earlier:
        config["privacy"]["on_lost_artifacts"] = earlier["config"]["privacy"]["on_lost_artifacts"]
    resumed = []
    if earlier:
        resumed = [*earlier.get("resumed", []), now()]
    # A run that is resumed with execution.approval off keeps its approval.
    approval = earlier.get("approval")
    if prepared.approval:
        approval = asdict(prepared.approval)
    values = {
        "warnings": list(prepared.warnings),
        "started": earlier.get("started", now()),
        "resumed": resumed,
        "prefect_run_id": earlier.get("prefect_run_id"),
        "mlflow_run_id": earlier.get("mlflow_run_id"),
        "dollars": earlier.get("dollars", 0.0),
        "dollars_estimated": earlier.get("dollars_estimated", 0.0),
        "approval": approval,
        "identity": prepared.parts.to_json(),
    }
    manifest = RunManifest(
        artifacts,
        initial_values(name.run_id, flow, name.dataset, config) | values,
        was_done=earlier.get("state") == "done",
    )
    manifest.earlier_error = earlier.get("error")
    return manifest


def manifest_config(prepared: Prepared) -> Json:
    """Return the configuration as manifests store it: with paths that resume the run from any folder."""
    config = prepared.requested_config
    paths = {"data_root": config.data_root or str(Path.cwd()), "task": task_place(config.task)}
    return config.model_dump(mode="json") | paths
