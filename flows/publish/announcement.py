"""Announce an export to Prefect, as an asset and an event, and describe it for MLflow: public facts only.

The bundle asset depends on the dataset and on the release, so that a run that passed the gate can start a downstream
deployment. An export is complete before it is announced: a server that is away never makes it fail.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from connectors.tracking.logged_model import ExportedModel
from flows.runtime.prefect_settings import needs_configured_server
from flows.runtime.terminal_progress import display


@dataclass(frozen=True, slots=True)
class ExportedBundle:
    """A bundle that was written: its folder and hash, its run, and the privacy loss of its texts.

    `flow_run_id`: of the run that made the texts. `dataset`: empty without private rows. `epsilon`: None if it is not
    known. `made`: UTC time in ISO 8601.
    """

    folder: Path
    hash: str
    run_id: str
    flow_run_id: str | None
    dataset: str
    epsilon: float | None
    delta: float
    made: str

    @property
    def asset(self) -> str:
        """Key of the bundle as an asset of Prefect; a bundle that is exported again materialises it again."""
        return f"wasp://bundle/{self.run_id}"

    @property
    def sources(self) -> list[str]:
        """Keys of the assets that the bundle depends on."""
        release = f"wasp://release/{self.run_id}"
        if not self.dataset:
            return [release]
        # Prefect refuses blanks and other characters in a key.
        name = re.sub(r"[^\w./:+@=-]", "-", self.dataset)
        return [f"wasp://dataset/{name}", release]

    @property
    def model(self) -> ExportedModel:
        """Tags of the model version that this bundle released."""
        tags = {
            "wasp.dataset": self.dataset,
            "wasp.epsilon": "" if self.epsilon is None else f"{self.epsilon:.6g}",
            "wasp.delta": f"{self.delta:g}",
            "wasp.bundle": self.hash,
        }
        return ExportedModel(self.made, {name: value for name, value in tags.items() if value})


def announce(bundle: ExportedBundle) -> None:
    """Materialise the bundle as an asset and emit the event of its export, if a Prefect server is configured."""
    # A temporary server would forget both, and its start takes longer than the export.
    if not needs_configured_server():
        return
    try:
        _send(bundle)
    except Exception as error:  # noqa: BLE001 - the bundle is written, whatever happens to its announcement
        display().say(
            f"warning: Prefect was not notified of this export ({type(error).__name__}). The bundle is complete"
        )


def _send(bundle: ExportedBundle) -> None:
    # Here and not above: `wasp export` without a server needs no Prefect.
    from prefect import get_client
    from prefect.assets import Asset, add_asset_metadata, materialize
    from prefect.cache_policies import NO_CACHE
    from prefect.logging import disable_run_logger

    from flows.runtime.budget_events import EXPORTED, dataset_resource, emit

    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise problem
    facts = {
        "dataset": bundle.dataset,
        "run_id": bundle.run_id,
        "bundle": bundle.hash,
        "epsilon": bundle.epsilon,
        "delta": bundle.delta,
    }
    asset = Asset(key=bundle.asset)

    @materialize(
        asset,
        by="wasp export",
        asset_deps=[*bundle.sources],
        name="publish bundle",
        task_run_name="publish bundle",
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    def publish() -> None:
        # The folder too: a downstream deployment opens it.
        add_asset_metadata(asset, facts | {"folder": str(bundle.folder)})

    # Its log lines need a flow run, which `wasp export` does not have.
    with disable_run_logger():
        publish()
    related = [{"prefect.resource.id": bundle.asset, "prefect.resource.role": "asset"}]
    if bundle.flow_run_id:
        source = f"prefect.flow-run.{bundle.flow_run_id}"
        related.append({"prefect.resource.id": source, "prefect.resource.role": "flow-run"})
    resource = {"prefect.resource.id": f"wasp.run.{bundle.run_id}"}
    if bundle.dataset:
        resource = dataset_resource(bundle.dataset)
    emit(EXPORTED, resource, facts, related)
