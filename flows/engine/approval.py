"""Approval of a plan by a person before private data is opened.

A run of the command prompts in the terminal. Any other run pauses in Prefect, whose page shows the plan with a form.
"""

from collections.abc import Sequence
from typing import Any

from prefect import runtime
from prefect.settings import get_current_settings

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ApprovalError, ConfigError
from flows.config.base import AnyConfig
from flows.config.execution import PACE
from flows.engine.plan import measured_lengths, plan_of
from flows.engine.run_page import narrow, show_plan
from flows.engine.tools import RunTools
from flows.runtime.manifest import Approval, now, read_manifest
from flows.runtime.pausing import request_approval_in_prefect
from flows.runtime.state_folder import current_user, state_folder
from flows.runtime.stores import open_artifacts
from flows.runtime.terminal_progress import display
from tasks.accounting.guarantee import Guarantee
from tasks.private.release import Release
from tasks.reporting.terminal import plan as format_plan
from tasks.writing.prompts import TaskCard

FORM_WIDTH = 60
"""Characters of a line in the form of a paused run."""
NOTHING = "Nothing was spent and no private data was opened."


def contract_of(flow: str, config: AnyConfig, card: TaskCard) -> str:
    """Return the digest of the approved settings, without paths and execution settings."""
    excluded: dict[str, Any] = {"task": True, "data_root": True, "tracking": True, "export": True}
    settings = config.model_dump(mode="json", exclude={**excluded, "execution": PACE})
    return digest([flow, card, settings])


def request_approval(
    config: AnyConfig,
    resumes: str | None,
    tools: RunTools,
    card: TaskCard,
    guarantee: Guarantee[Release],
    warnings: Sequence[str],
) -> Approval:
    """Return the approval of a plan; request it unless the run to resume already has it.

    Raises ApprovalError on refusal or timeout, ConfigError without a terminal and a Prefect server.
    """
    contract = contract_of(config.flow_name, config, card)
    earlier = _earlier(resumes, contract)
    if earlier is not None:
        return earlier
    dataset = tools.private.name if tools.config.private else ""
    planned = plan_of(tools.config, card, guarantee, measured_lengths(tools))
    whole = {**planned, "warnings": list(warnings)}
    plan = format_plan(whole)
    question = f"Open the private rows of '{dataset}'?" if dataset else "Run this plan?"
    is_approved = display().confirm(f"{plan}\n\n{question}")
    if is_approved is not None:
        if not is_approved:
            raise ApprovalError(f"{current_user()} refused this plan on the terminal. {NOTHING}")
        return Approval(current_user(), now(), "on the terminal", contract)
    if not get_current_settings().api.url or runtime.flow_run.id is None:
        raise ConfigError(
            "execution.approval: the plan needs an approval, but there is neither a terminal nor a Prefect server. "
            "Run it in a terminal, set PREFECT_API_URL to a server, or set execution.approval to false. "
            f"{NOTHING}"
        )
    # Also on the page of the paused run, for those who look before they open the form.
    show_plan(whole)
    request = f"A run requests access to the rows of '{dataset}'. Its plan:"
    return request_approval_in_prefect(
        "this plan", contract, f"{request}\n\n```\n{narrow(plan, FORM_WIDTH)}\n```", NOTHING
    )


def _earlier(run_id: str | None, contract: str) -> Approval | None:
    """Return the approval of the run to resume if it is for the same plan."""
    if run_id is None:
        return None
    stored = read_manifest(open_artifacts(state_folder()), run_id).get("approval")
    if not stored or stored["contract"] != contract:
        return None
    return Approval(**stored)
