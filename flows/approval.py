"""The pause before the first private row is opened: a person sees the plan and approves it, or nothing happens.

A run of the command asks on its terminal; any other run pauses in Prefect, whose page shows the plan with a form.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from prefect import get_client, runtime
from prefect.client.schemas.objects import State
from prefect.input import RunInput, keyset_from_paused_state, read_flow_run_input
from prefect.settings import get_current_settings
from prefect.states import Paused
from pydantic import Field

from connectors.base import ApprovalError, ConfigError, digest
from flows.home import state_folder, who
from flows.params import PACE, AnyConfig
from flows.progress import display
from flows.records import now, read_book
from flows.stores import open_artifacts
from flows.words import plan as plan_in_words
from tasks.prompts import TaskCard

LOOK_EVERY_SECONDS = 5
GRACE_SECONDS = 600
NOTHING = "Nothing was spent and no private row was opened."


class Answer(RunInput):
    """What the form in the Prefect UI asks for."""

    approved: bool = Field(
        False,
        title="Approved",
        description="Open the private rows and carry this plan out.",
        json_schema_extra={"position": 0},
    )
    by: str = Field(min_length=1, title="By", description="Who decides: your name.", json_schema_extra={"position": 1})
    reason: str = Field("", title="Reason", description="Kept in the run's record.", json_schema_extra={"position": 2})


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
    aside: dict[str, Any] = {"task": True, "data_root": True, "tracking": True}
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
    key = f"approval-{contract[:16]}"
    given = _answered(key)
    if given is None:
        answer = _pause(config.execution.approval_minutes, plan, f"{key}-{time.time_ns()}")
        given = answer, now()
    answer, at = given
    if not answer.approved:
        because = f": {answer.reason}" if answer.reason else ""
        raise ApprovalError(f"{answer.by} refused this plan{because}. {NOTHING}")
    return Approval(answer.by, at, "in Prefect", contract, answer.reason)


def _answered(key: str) -> tuple[Answer, str] | None:
    """Return the approval that an earlier attempt of this flow run got, and when; Prefect forgets pauses on a retry."""
    with get_client(sync_client=True) as client:
        found = client.filter_flow_run_input(UUID(str(runtime.flow_run.id)), f"paused-{key}", 200, set())
    for one in found:
        if one.key.endswith("-response"):
            answer = Answer.model_validate(one.decoded_value)
            if answer.approved:
                return answer, one.created.isoformat(timespec="seconds") if one.created else now()
    return None


def _pause(minutes: int, plan: dict[str, Any], key: str) -> Answer:
    """Put the flow run into the state Paused with its form, and wait for the answer.

    Prefect's own `pause_flow_run` fails a run that nobody resumed in words that say nothing else; so its clock is set
    later than ours, and ours ends the wait.
    """
    display().say(f"waiting {minutes} minutes for approval: {runtime.flow_run.ui_url}")
    run, form = UUID(str(runtime.flow_run.id)), Answer.with_initial_data(description=_form(plan, minutes))
    state: State[Any] = Paused(timeout_seconds=60 * minutes + GRACE_SECONDS, pause_key=key)
    keys = keyset_from_paused_state(state)
    state.state_details.run_input_keyset = {str(name): place for name, place in keys.items()}
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, state)
        form.save(keys, run)
        deadline = time.monotonic() + 60 * minutes
        while time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_SECONDS)
            found = client.read_flow_run(run).state
            if found is not None and found.is_running():
                return Answer.model_validate(read_flow_run_input(keys["response"], run))
            if found is not None and not found.is_paused():
                raise ApprovalError(f"The run became {found.name} while it waited for approval. {NOTHING}")
    raise ApprovalError(f"Nobody approved this plan within {minutes} minutes. {NOTHING} To ask again: Retry.")


def _form(plan: dict[str, Any], minutes: int) -> str:
    return (
        f"A run wants to open the private rows of '{plan['dataset']}'. Its plan:\n\n```\n{plan_in_words(plan)}\n```\n\n"
        f"Refused, or not answered within {minutes} minutes: nothing is spent and no private row is opened."
    )
