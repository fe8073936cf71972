"""Run `wasp clean` as a flow to schedule retention, and send to MLflow what it missed while it was away.

The run page shows what was removed and why.
"""

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact

from connectors.interfaces.json_values import Json
from flows.cli.clean import clean_folder, cleaned
from flows.cli.stored_runs import push
from flows.runtime.state_folder import state_folder
from flows.storage.retention import Retention


@flow(name="clean", validate_parameters=True)
def clean(rules: Retention | None = None, remove: bool = False) -> Json:
    """Remove files of the state folder by rule; send runs that MLflow lacks something of.

    Keep releases, privacy ledger and reports.

    Args:
        rules: maximum ages; without a rule only unusable files are selected.
        remove: remove the selected files; off: only show them.

    Returns:
        The JSON object of `wasp clean --json`.
    """
    sent = push(None, True)
    get_run_logger().info("MLflow: %s", sent.to_text(sent))
    result = clean_folder(rules or Retention(), remove)
    create_markdown_artifact(
        f"`{state_folder()}`\n```\n{cleaned(result)}\n```", key="clean", description="Removed files"
    )
    return result
