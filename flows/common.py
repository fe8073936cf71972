"""What every flow shares: prepare, hold the run, reserve the budget, and leave it in order whatever happens."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from prefect import get_client, runtime
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from connectors.base import ArtifactError, ConfigError, WaspError
from flows.home import state_folder
from flows.measured import measured_lengths
from flows.params import WaspConfig
from flows.plan import plan_of
from flows.prepare import Prepared, prepare
from flows.progress import display
from flows.records import RunBook, held, now, open_book
from flows.run import WaspRun
from flows.words import plan as plan_in_words


def flow_run_name() -> str:
    """Name a flow run after what it does: flow, task, epsilon, seed."""
    config = runtime.flow_run.parameters["config"]
    values = config if isinstance(config, dict) else config.model_dump(mode="json")
    epsilon = values.get("privacy", {}).get("epsilon", 4.0)
    seed = values.get("execution", {}).get("seed", 0)
    return f"{runtime.flow_run.flow_name}-{Path(values['task']).stem}-eps{epsilon}-s{seed}"


@contextmanager
def running(flow: str, config: WaspConfig, resumes: str | None = None) -> Iterator[WaspRun]:
    """Open a run: check everything, hold it for this process, reserve its budget, show its plan.

    A failure is written into the manifest with what to do next; what was reserved stays reserved until the run is
    resumed or given up, so that nobody else spends it meanwhile.
    """
    started = time.monotonic()
    home = state_folder()
    prepared = prepare(flow, config, home)
    name = prepared.tools.name
    assert name is not None
    if resumes not in (None, name.run_id):
        raise ConfigError(
            f"Run {resumes} cannot go on: its task file, rows or models are not what they were when it started. "
            f"Bring them back, or start a new run with its own budget ({name.run_id}): wasp run {flow}"
        )
    with held(home, name.run_id, prepared.tools.ledger):
        book = open_book(flow, prepared)
        if prepared.plan.charges:
            prepared.tools.ledger.reserve(name.dataset, prepared.plan, who())
        run = WaspRun(prepared, book, started)
        try:
            _announce(run, prepared, book)
            yield run
        except BaseException as error:
            _failed(run, book, error)
            raise


def _tag(run: WaspRun) -> None:
    """Tag the flow run; its task runs stay untagged (see tasks.steps.step)."""
    flow_run_id = runtime.flow_run.id
    if flow_run_id is None:
        return
    config = run.config
    epsilon = "inf" if run.prepared.noise.non_private else f"{config.privacy.epsilon:g}"
    tags = [run.prepared.card.name, f"epsilon {epsilon}", f"seed {config.execution.seed}"]
    tags += ["NOT PRIVATE"] if run.prepared.noise.non_private else []
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(str(flow_run_id)), tags=tags)


def _announce(run: WaspRun, prepared: Prepared, book: RunBook) -> None:
    plan = plan_of(prepared.config, prepared.card, prepared.noise, measured_lengths(run.tools))
    plan |= {"warnings": list(prepared.warnings)}
    _tag(run)
    book.update(prefect_run_id=str(runtime.flow_run.id) if runtime.flow_run.id else None, plan=plan)
    create_markdown_artifact(f"```\n{plan_in_words(plan)}\n```", key="plan", description="What this run will spend")
    run.tools.tracker.start(run.tracked_parameters())
    link = run.tools.tracker.ui_link()
    if link:
        create_link_artifact(link, key="mlflow-run", link_text="MLflow run")
    book.update(mlflow_run_id=run.tools.tracker.mlflow_run_id)
    for warning in prepared.warnings:
        display().say(f"warning: {warning}")


def _failed(run: WaspRun, book: RunBook, error: BaseException) -> None:
    words = str(error) if isinstance(error, WaspError) else type(error).__name__
    go_on = f"wasp resume {run.tools.run_id}"
    display().say(f"stopped by {type(error).__name__}; go on with: {go_on}")
    try:
        book.update(state="failed", ended=now(), dollars=run.dollars, error=f"{words} Next: {go_on}")
    except ArtifactError as second:
        display().say(f"that it failed could not be written down: {second}")
    run.tools.tracker.end("FAILED")


def who() -> str:
    """Return who runs this, for the budget book."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
