"""Asks a person in Prefect: the flow run pauses with a form on its page until somebody answers, or time runs out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect import get_client, runtime
from prefect.client.schemas.objects import State
from prefect.input import RunInput, keyset_from_paused_state, read_flow_run_input
from prefect.states import Paused
from pydantic import Field

from connectors.interfaces.errors import ApprovalError
from flows.runtime.manifest import now
from flows.runtime.terminal_progress import display

LOOK_EVERY_SECONDS = 5
GRACE_SECONDS = 600


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
class Question:
    """What is asked: `what` in two words ('this plan'), the text of its form, and what a refusal leaves undone.

    `key` names the answer: a later attempt of the same flow run that asks by the same key is not kept waiting again.
    """

    what: str
    key: str
    minutes: int
    text: str
    nothing: str
    form: type[Answer] = Answer


def ask_in_prefect(question: Question) -> tuple[Answer, str]:
    """Return the approval and when it was given; ApprovalError when it is refused, or not given in time."""
    given = _answered(question)
    if given is None:
        given = _pause(question), now()
    answer, at = given
    if not answer.approved:
        because = f": {answer.reason}" if answer.reason else ""
        raise ApprovalError(f"{answer.by} refused {question.what}{because}. {question.nothing}")
    return answer, at


def _answered(question: Question) -> tuple[Answer, str] | None:
    """Return the approval that an earlier attempt of this flow run got, and when; Prefect forgets pauses on a retry."""
    with get_client(sync_client=True) as client:
        found = client.filter_flow_run_input(UUID(str(runtime.flow_run.id)), f"paused-{question.key}", 200, set())
    for one in found:
        if one.key.endswith("-response"):
            answer = question.form.model_validate(one.decoded_value)
            if answer.approved:
                return answer, one.created.isoformat(timespec="seconds") if one.created else now()
    return None


def _pause(question: Question) -> Answer:
    """Put the flow run into the state Paused with its form, and wait for the answer.

    Prefect's own `pause_flow_run` fails a run that nobody resumed in words that say nothing else; so its clock is set
    later than ours, and ours ends the wait.
    """
    minutes = question.minutes
    display().say(f"waiting {minutes} minutes for approval: {runtime.flow_run.ui_url}")
    run, form = UUID(str(runtime.flow_run.id)), question.form.with_initial_data(description=question.text)
    key = f"{question.key}-{time.time_ns()}"
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
                return question.form.model_validate(read_flow_run_input(keys["response"], run))
            if found is not None and not found.is_paused():
                raise ApprovalError(f"The run became {found.name} while it waited for approval. {question.nothing}")
    raise ApprovalError(
        f"Nobody approved {question.what} within {minutes} minutes. {question.nothing} To ask again: Retry."
    )
