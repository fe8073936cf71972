"""Check and prepare a run before Prefect, its temporary server and MLflow start.

The command calls `check_first` and `prepare_beforehand` and hands the result to the flow, which takes it in
`prepare_once`. A served flow finds nothing and checks by itself.
"""

from pathlib import Path

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.security.secrets import is_block
from flows.config.base import AnyConfig
from flows.engine.finished import load_intact_summary
from flows.engine.language_advice import writer_problem
from flows.engine.prepare import (
    Ask,
    Checked,
    Prepared,
    check_run,
    prepare,
    prepare_checked,
    require_same_run,
)
from flows.engine.server import server_policy
from flows.runtime.handover import take
from flows.runtime.manifest import read_manifest
from flows.runtime.prefect_server import require_server
from flows.runtime.prefect_settings import needs_configured_server
from flows.runtime.state_folder import state_folder
from flows.runtime.terminal_progress import display
from tasks.private.rows.rows import problems_file


def check_first(flow: str, config: AnyConfig, resumes: str | None) -> Checked:
    """Check a run; the checks of a flow entry. No private row is opened."""
    if any(model.deployment or is_block(model.key or "") for model in config.models):
        # Opening such a model asks the server for the deployment or the key.
        require_server()
    return check_run(flow, config, state_folder(), resumes)


def prepare_beforehand(checked: object) -> object:
    """Return a checked run prepared, unless an approver, other parties or a Prefect server take part; else `checked`.

    Raises the errors of `prepare`, and ConfigError if the run to resume changed.
    """
    if not isinstance(checked, Checked):
        return checked
    config = checked.requested
    is_watched = config.execution.approval or config.parties is not None
    # The page of the server shows errors of private rows; an approver decides before rows are opened.
    if is_watched or needs_configured_server():
        return checked
    prepared = prepare_checked(checked)
    require_same_run(prepared, checked.resumes)
    require_writers(prepared)
    return prepared


def require_writers(prepared: Prepared) -> None:
    """Raise ConfigError if a new run would be charged although no model writes the language of its task.

    A run that has started goes on: its texts are those of an earlier version, which checked no language.
    """
    tools = prepared.tools
    if not prepared.plan.charges or read_manifest(tools.artifacts, tools.run_id):
        return
    if problem := writer_problem(tools.config, prepared.card.language):
        raise ConfigError(f"{problem}. Nothing was spent")


def finished_summary(ready: object) -> Json | None:
    """Return the summary of a run that is finished and intact; None for any other one, which has to run."""
    if not isinstance(ready, Prepared):
        return None
    summary = load_intact_summary(ready)
    if summary is not None:
        show_warnings(ready)
    return summary


def prepare_once(
    flow: str, config: AnyConfig, home: Path, ask: Ask | None, resumes: str | None
) -> Prepared:
    """Return the prepared run: what the command handed over, else as `prepare` does."""
    ready: Checked | Prepared | None = take(flow, config, resumes)
    if ready is None:
        return prepare(flow, config, home, ask, resumes)
    if isinstance(ready, Checked):
        return prepare_checked(ready, ask)
    return ready


def show_warnings(prepared: Prepared) -> None:
    """Show the warnings of a run, and the file that lists unusable private rows."""
    for warning in prepared.warnings:
        display().say(f"warning: {warning}")
    tools = prepared.tools
    private = tools.config.private
    if private is None or server_policy() is not None:
        return
    # Always printed, and always the same line: it may reach a public log and must reveal nothing about the rows.
    file = problems_file(tools.zone, tools.private)
    counted = ""
    if private.dataset:
        counted = f", and counted by wasp dataset show {private.dataset}"
    display().say(
        "private rows that cannot be used, and test or public rows that are also private, if any, are listed in "
        f"{file}{counted}"
    )
