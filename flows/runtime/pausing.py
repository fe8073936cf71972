"""Requests an approval in Prefect: the flow run pauses with a form."""

import time
from typing import Any
from uuid import UUID

from prefect import get_client, runtime
from prefect.client.schemas.objects import State
from prefect.input import RunInput, keyset_from_paused_state, read_flow_run_input
from prefect.states import Paused
from pydantic import Field

from connectors.interfaces.errors import ApprovalError
from flows.runtime.manifest import Approval, now
from flows.runtime.terminal_progress import display

LOOK_EVERY_SECONDS = 5
GRACE_SECONDS = 600
APPROVAL_MINUTES = 60
"""Minutes that a flow run waits for an approval."""


class Answer(RunInput):
    """Fields of the approval form in the Prefect UI."""

    approved: bool = Field(
        False,
        title="Approved",
        description="Execute what the text requests.",
        json_schema_extra={"position": 0},
    )
    by: str = Field(
        min_length=1, title="By", description="Your name.", json_schema_extra={"position": 1}
    )
    reason: str = Field(
        "",
        title="Reason",
        description="Stored in the run's manifest.",
        json_schema_extra={"position": 2},
    )


def request_approval_in_prefect(subject: str, contract: str, text: str, nothing: str) -> Approval:
    """Return the approval of a person in Prefect; ApprovalError on a refusal or a timeout.

    Args:
        subject: the subject in messages, such as 'this plan'.
        contract: digest of what is approved; a retry of the same flow run reuses an approval of the same.
        text: text of the form.
        nothing: sentence for messages on what a refusal leaves undone.
    """
    key = f"approval-{contract[:16]}"
    text += f"\n\nWithout approval within {APPROVAL_MINUTES} minutes nothing is opened, spent or exported."
    answer, at = _earlier_approval(key) or (_pause(subject, key, text, nothing), now())
    if not answer.approved:
        reason = f": {answer.reason}" if answer.reason else ""
        raise ApprovalError(f"{answer.by} refused {subject}{reason}. {nothing}")
    return Approval(answer.by, at, "in Prefect", contract, answer.reason)


def _earlier_approval(key: str) -> tuple[Answer, str] | None:
    """Return the approval of an earlier attempt; Prefect forgets pauses on a retry."""
    run = UUID(str(runtime.flow_run.id))
    with get_client(sync_client=True) as client:
        inputs = client.filter_flow_run_input(run, f"paused-{key}", 200, set())
    for entry in inputs:
        if not entry.key.endswith("-response"):
            continue
        answer = Answer.model_validate(entry.decoded_value)
        # A refusal does not count: a retry asks again.
        if not answer.approved:
            continue
        if entry.created is None:
            return answer, now()
        return answer, entry.created.isoformat(timespec="seconds")
    return None


def _pause(subject: str, key: str, text: str, nothing: str) -> Answer:
    """Pause the flow run with its form, and wait for the response.

    The timeout of Prefect's pause is longer than ours, because Prefect fails the run with an unspecific message.
    """
    display().say(f"waiting {APPROVAL_MINUTES} minutes for approval: {runtime.flow_run.ui_url}")
    run = UUID(str(runtime.flow_run.id))
    form = Answer.with_initial_data(description=text)
    # Prefect ignores a second pause with the same key; `_earlier_approval` finds all by the first part.
    unique = f"{key}-{time.time_ns()}"
    seconds = 60 * APPROVAL_MINUTES + GRACE_SECONDS
    state: State[Any] = Paused(timeout_seconds=seconds, pause_key=unique)
    keys = keyset_from_paused_state(state)
    state.state_details.run_input_keyset = {str(name): value for name, value in keys.items()}
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, state)
        form.save(keys, run)
        deadline = time.monotonic() + 60 * APPROVAL_MINUTES
        while time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_SECONDS)
            current = client.read_flow_run(run).state
            if current is not None and current.is_running():
                return Answer.model_validate(read_flow_run_input(keys["response"], run))
            if current is not None and not current.is_paused():
                raise ApprovalError(
                    f"The run became {current.name} while it waited for approval. {nothing}"
                )
    raise ApprovalError(
        f"Nobody approved {subject} within {APPROVAL_MINUTES} minutes. {nothing} To request it again: Retry."
    )
