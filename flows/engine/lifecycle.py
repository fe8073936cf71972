"""Run lifecycle that all flows share: prepare, lock, reserve the budget, clean up on failure."""

import inspect
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from prefect import Flow, flow, get_client, get_run_logger, runtime
from prefect.utilities.hashing import file_hash
from pydantic.json_schema import SkipJsonSchema

from connectors.interfaces import cancellation
from connectors.interfaces.errors import ConfigError, ModelsDownError, TooFewTextsError, WaspError
from connectors.interfaces.json_values import Json
from connectors.ledger.state import has_released
from flows.catalog import find_flow
from flows.config.base import AnyConfig
from flows.config.files import Changes, check_config, with_changes
from flows.config.paths import dataset_name
from flows.engine import run_page
from flows.engine.approval import request_approval
from flows.engine.beforehand import prepare_once, require_writers, show_warnings
from flows.engine.finish import finish_run
from flows.engine.plan import measured_lengths, plan_of
from flows.engine.prepare import require_same_run
from flows.engine.run import Run, RunResults
from flows.engine.run_manifest import open_manifest
from flows.engine.tracking import start_tracking
from flows.runtime.budget_events import reported_refusal
from flows.runtime.failure import (
    ErrorContext,
    describe_error,
    ends_the_process,
    explained_errors,
    kept_interruption,
)
from flows.runtime.flow_runs import end_left_tasks, fail_down_models, reported_end
from flows.runtime.interruption import described, report_interruption
from flows.runtime.manifest import lock_run, now, share_caches
from flows.runtime.state_folder import check_room, current_user, state_folder
from flows.runtime.task_runners import ConfiguredTaskRunner
from flows.runtime.terminal_progress import display
from flows.storage.removal import load_finished_summary
from tasks.prefect import page

AnyRun = TypeVar("AnyRun", bound=Run)

Resumes = SkipJsonSchema[str | None]
"""Parameter of a flow that no form draws: Retry, and a run with the same parameters, resume a run, too."""
PARAMETERS = """

Args:
    config: the settings of the run: task, rows, language models, privacy, method, student and evaluation. In a
        schedule, set `changes` instead: this replaces all.
    resumes: the id of a run to resume; a changed configuration, file or model is refused before any charge.
    changes: single values to change, such as `privacy.epsilon=2`; a schedule can set these alone.

Returns:
    The summary of the run, as printed by `wasp run --json`.
"""
"""The end of every flow's description; Prefect shows it in the form of the parameters."""
NAME_END = re.compile(r"-e[\d.e-]+(-s\d+-[\d-]+)$")
"""Epsilon, seed and start at the end of a flow run's name."""


def flow_run_name() -> str:
    """Return the name of a flow run: flow, dataset or task, epsilon, seed, start.

    For an invalid configuration, which the flow itself refuses, it has flow and start only.
    """
    parameters = runtime.flow_run.parameters
    name = str(runtime.flow_run.flow_name)
    started = f"{datetime.now():%Y-%m-%d-%H%M}"
    try:
        config: Any = parameters["config"]
        # That of a command is checked already; the properties that it caches are no fields of another one.
        if not isinstance(config, AnyConfig):
            config = check_config(find_flow(name).config, dict(config), "config")
        config = with_changes(config, parameters.get("changes"))
    except (ConfigError, TypeError, ValueError):
        return f"{name}-{started}"
    data = Path(config.task).stem
    if config.private:
        data = dataset_name(config.private).rpartition("/")[2]
    return f"{name}-{data}-e{config.epsilon:g}-s{config.execution.seed}-{started}"


def method_flow(
    config: type[AnyConfig], kind: type[AnyRun]
) -> Callable[[Callable[[AnyRun], RunResults]], Flow[..., Json]]:
    """Make the Prefect flow of a method from its algorithm, a function of the run.

    The flow has the name and docstring of the function. Its parameters are a configuration of the class `config`, the
    id of a run to resume, and changes of single values; it returns the summary, as printed by `wasp run --json`. The
    function receives a run of the class `kind`, which is prepared, locked and reserved, and returns its results.
    """

    def decorate(algorithm: Callable[[AnyRun], RunResults]) -> Flow[..., Json]:
        def shell(config: AnyConfig, resumes: str | None = None, changes: Changes = None) -> Json:
            return _execute(algorithm, kind, config, resumes, changes)

        update_wrapper(shell, algorithm)
        # Prefect would follow the wrapper and read the parameters of the algorithm.
        del shell.__wrapped__  # type: ignore[attr-defined]
        shell.__doc__ = f"{inspect.getdoc(algorithm)}{PARAMETERS}"
        # Types, not names: Prefect pickles a served flow without names that only annotations use.
        shell.__annotations__ = {
            "config": config,
            "resumes": Resumes,
            "changes": Changes,
            "return": Json,
        }
        runner = ConfiguredTaskRunner()
        # By default that of this file, which is the same for all methods.
        version = file_hash(inspect.getfile(algorithm))
        named = flow(
            name=shell.__name__, version=version, flow_run_name=flow_run_name, task_runner=runner
        )
        return named(shell)

    return decorate


def _execute(
    algorithm: Callable[[AnyRun], RunResults],
    kind: type[AnyRun],
    config: AnyConfig,
    resumes: str | None,
    changes: Changes,
) -> Json:
    """Execute a run: check everything, lock the run, reserve its budget, show its plan, follow the algorithm.

    If configured, a person approves the plan before private data is opened. A failure is reported with step, cause and
    next command, and is stored in the manifest. The reservation remains until the run is resumed or abandoned, so no
    other run can spend it. A run that stops for too few texts before its first release returns its reservation. For a
    finished run whose texts were removed nothing is generated again: its summary is returned.
    """
    flow_name = algorithm.__name__
    started = time.monotonic()
    home = state_folder()
    context = ErrorContext()
    with explained_errors(context), reported_end(), reported_refusal(context):
        config = with_changes(config, changes)
        check_room(home)
        approve = None
        if config.execution.approval:
            approve = partial(request_approval, config, resumes)
        prepared = prepare_once(flow_name, config, home, approve, resumes)
        name = prepared.tools.run_name
        require_same_run(prepared, resumes)
        # Again: a served flow, or one with an approval, was not prepared beforehand.
        require_writers(prepared)
        context.folder = home / "runs" / name.run_id
        # Locked before the manifest is opened: a second start must not overwrite the state of the first.
        with share_caches(home), lock_run(home, name.run_id, prepared.tools.ledger):
            finished_summary = load_finished_summary(
                prepared.tools.artifacts, name.run_id, config.privacy.respends
            )
            manifest = open_manifest(flow_name, prepared, keep_choice=resumes is not None)
            if finished_summary is not None:
                return finished_summary
            if prepared.plan.charges:
                by = current_user()
                if prepared.approval:
                    by = f"{by}, approved by {prepared.approval.by}"
                prepared.tools.ledger.reserve(name.dataset, prepared.plan, by)
            context.has_started = True
            with _record_failure(kind(prepared, manifest, started), context) as run:
                _announce(run)
                return finish_run(run, algorithm(run))


@contextmanager
def _record_failure(run: AnyRun, context: ErrorContext) -> Iterator[AnyRun]:
    """Store a failure in the manifest, also if the disk or the tracking server fails; then flush the run page."""
    with described(partial(interrupted_lines, run)), run_page.connector_warnings():
        try:
            with kept_interruption():
                yield run
        except BaseException as error:
            _store_failure(run, context, error)
            raise
        else:
            # The run is finished and stored: errors while its page is flushed must not mark it as failed.
            page.flush()


def _store_failure(run: Run, context: ErrorContext, error: BaseException) -> None:
    # Prefect stores a Ctrl-C in a step as an error of the step.
    is_interrupted = ends_the_process(error) or cancellation.is_stopped()
    is_failed = isinstance(error, Exception) and not is_interrupted
    # Both may stop a run before its first release: its budget is then free again.
    if isinstance(error, TooFewTextsError | ModelsDownError):
        error.args = (f"{str(error).rstrip('.')}. {return_reservation(run)}".rstrip(),)
        page.defer(fail_down_models)
    message = f"{type(error).__name__}. Next: wasp resume {run.tools.run_id}"
    if isinstance(error, Exception):
        message = describe_error(error, context)
    try:
        if is_interrupted:
            report_interruption()
            run_page.show_text("stopped", "This run was stopped", stopped_text(run))
        # The manifest first: it is a local file, while the tracking server may not answer.
        run.progress.manifest.update(
            state="failed" if is_failed else "interrupted",
            ended=now(),
            error=message,
            **run.progress.money,
        )
        run.tools.tracker.end("FAILED")
    except (OSError, WaspError) as further:
        display().say(f"The failure could not be stored in the manifest: {further}")
    # Who interrupts a run waits for the terminal.
    page.flush(page.FLUSH_TIMEOUT_SECONDS if is_failed else 1.0)


def return_reservation(run: Run) -> str:
    """Return the reservation of a stopped run without releases to the budget; return a message about it."""
    name = run.tools.run_name
    if not name.dataset:
        return ""
    if has_released(run.tools.ledger.history(name.dataset), name.run_id):
        return (
            f"Its remaining budget is still reserved. Return it with: wasp abandon {name.run_id}."
        )
    run.tools.ledger.finish(name.dataset, name.run_id)
    return "The reserved budget was returned."


def interrupted_lines(run: Run) -> list[str]:
    """Return what the terminal shows when a run is interrupted: how to continue, and what stays reserved."""
    resume = f"Interrupted. Resume with: wasp resume {run.tools.run_id}"
    return [resume, *(f"Interrupted: {line}" for line in reserved_lines(run))]


def stopped_text(run: Run) -> str:
    """Return what a stopped run leaves behind, in Markdown: how to continue, and how to give its budget back."""
    lines = ["**This run was stopped.** Nothing is lost: finished steps are reused.", ""]
    lines.append(f"- Continue: Retry on this page, or `wasp resume {run.tools.run_id}`")
    return "\n".join([*lines, *(f"- Budget: {line}" for line in reserved_lines(run))])


def reserved_lines(run: Run) -> list[str]:
    """Return a line about the budget that open runs of the dataset have reserved; none if nothing is reserved."""
    name = run.tools.run_name
    if not name.dataset or not run.prepared.plan.charges:
        return []
    reserved = run.tools.ledger.status(name.dataset).reserved
    if not reserved:
        return []
    return [
        f"epsilon {reserved:.4g} stays reserved by open runs of '{run.dataset}' and counts against the cap. Return the "
        f"part of this run with: wasp abandon {name.run_id}"
    ]


def _tag(run: Run) -> None:
    """Tag the flow run; its task runs stay untagged (see tasks.prefect.runtime.task_step)."""
    flow_run_id = runtime.flow_run.id
    if flow_run_id is None:
        return
    config = run.config
    # The name of the run has the seed: a tag for each would fill the filter of the list.
    tags = [run.prepared.card.name, f"epsilon {config.epsilon:g}"]
    if run.prepared.guarantee.non_private:
        tags.append("NOT PRIVATE")
    with get_client(sync_client=True) as client:
        # An update replaces all tags, also those of the deployment or of a person.
        present = client.read_flow_run(UUID(str(flow_run_id)))
        name = present.name
        if config.epsilon == 0:
            # `auto` keeps the rows closed; it decides when the run is prepared, after it got its name.
            name = NAME_END.sub(r"-e0\1", name)
        client.update_flow_run(present.id, name=name, tags=sorted({*present.tags, *tags}))


def _announce(run: Run) -> None:
    prepared = run.prepared
    manifest = run.progress.manifest
    planned = plan_of(run.config, prepared.card, prepared.guarantee, measured_lengths(run.tools))
    plan = {**planned, "warnings": list(prepared.warnings)}
    if manifest.earlier_error:
        # After an outage of the server its page has no cause: neither state nor log could be sent.
        get_run_logger().warning("The previous attempt ended with: %s", manifest.earlier_error)
    page.defer(lambda: _tag(run))
    earlier = manifest.values["prefect_run_id"]
    began = datetime.now(UTC)
    page.defer(lambda: end_left_tasks(earlier, began))
    flow_run_id = runtime.flow_run.id
    manifest.update(prefect_run_id=str(flow_run_id) if flow_run_id else None, plan=plan)
    run_page.show_plan(plan)
    start_tracking(prepared)
    run_page.show_mlflow(run.tools.tracker.ui_link())
    manifest.update(mlflow_run_id=run.tools.tracker.mlflow_run_id)
    display().status(0, run.iterations)
    show_warnings(prepared)
