"""The pause before the first private row is opened: a person sees the plan and approves it, or nothing happens.

A run of the command asks on its terminal; any other run pauses in Prefect, whose page shows the plan with a form.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from prefect import runtime
from prefect.settings import get_current_settings

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ApprovalError, ConfigError
from flows.config.base import AnyConfig
from flows.config.execution import PACE
from flows.engine.text import plan as plan_in_words
from flows.runtime.manifest import now, read_book
from flows.runtime.pausing import Question, ask_in_prefect
from flows.runtime.state_folder import state_folder, who
from flows.runtime.stores import open_artifacts
from flows.runtime.terminal_progress import display
from tasks.text.prompts import TaskCard

NOTHING = "Nothing was spent and no private row was opened."


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approved which plan, when and where. `contract` is the digest of everything the plan follows from."""

    by: str
    at: str
    where: str
    contract: str
    reason: str = ""

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"approved by {self.by} on {self.at} ({self.where}){because}"


def contract_of(flow: str, config: AnyConfig, card: TaskCard) -> str:
    """Return the digest of what is approved: everything but places that may be written differently, and pace."""
    aside: dict[str, Any] = {"task": True, "data_root": True, "tracking": True, "export": True}
    settings = config.model_dump(mode="json", exclude={**aside, "execution": PACE})
    return digest([flow, asdict(card), settings])


def ask(flow: str, config: AnyConfig, card: TaskCard, plan: dict[str, Any], resumes: str | None) -> Approval:
    """Return the approval of this plan, asking for it unless this run has it.

    Raises ApprovalError when a person refuses or the time runs out, ConfigError where nobody can be asked.
    """
    contract = contract_of(flow, config, card)
    earlier = _earlier(resumes, contract)
    if earlier is not None:
        return earlier
    rows = f"Open the private rows of '{plan['dataset']}'?" if plan["dataset"] else "Carry this plan out?"
    said = display().confirm(f"{plan_in_words(plan)}\n\n{rows}")
    if said is not None:
        if not said:
            raise ApprovalError(f"{who()} refused this plan on the terminal. {NOTHING}")
        return Approval(who(), now(), "on the terminal", contract)
    if not get_current_settings().api.url or runtime.flow_run.id is None:
        raise ConfigError(
            "execution.approval: somebody has to approve the plan, but there is neither a terminal nor a Prefect "
            "server to ask on. Run it on a terminal, name a server with PREFECT_API_URL, or set execution.approval "
            f"to false. {NOTHING}"
        )
    return _in_prefect(config, plan, contract)


def _earlier(run_id: str | None, contract: str) -> Approval | None:
    """Return the approval that a run to be resumed was started with, if it is for the same plan."""
    kept = read_book(open_artifacts(state_folder()), run_id).get("approval") if run_id else None
    return Approval(**kept) if kept and kept["contract"] == contract else None


def _in_prefect(config: AnyConfig, plan: dict[str, Any], contract: str) -> Approval:
    """Pause the flow run until its form is answered; a later attempt of the same flow run does not ask again."""
    minutes = config.execution.approval_minutes
    question = Question("this plan", f"approval-{contract[:16]}", minutes, _form(plan, minutes), NOTHING)
    answer, at = ask_in_prefect(question)
    return Approval(answer.by, at, "in Prefect", contract, answer.reason)


def _form(plan: dict[str, Any], minutes: int) -> str:
    return (
        f"A run wants to open the private rows of '{plan['dataset']}'. Its plan:\n\n```\n{plan_in_words(plan)}\n```\n\n"
        f"Refused, or not answered within {minutes} minutes: nothing is spent and no private row is opened."
    )
