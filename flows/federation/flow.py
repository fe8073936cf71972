"""The flow that a party carries out when a coordinator calls it to a round; its parameters are the round's name."""

# Annotations are values here, not words: Prefect sends a served flow to another process without what only they name.
from typing import Any
from uuid import UUID

from prefect import flow, get_client, runtime
from prefect.states import Cancelled, Completed, Running

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact
from flows.federation.party import Party
from tasks.federation.messages import RoundId
from tasks.steps.federation.party_round import PartyRound

WORDS = {"joined": "Joined", "ready": "Voted", "masked": "Masked"}
_HERE: list[Party] = []
"""The party of this process."""


def settle(party: Party) -> None:
    """Make `party` the one that this process is."""
    _HERE[:] = [party]


@flow(name="party_round", validate_parameters=True, persist_result=False, log_prints=False)
def party_round(run_id: str, iteration: int, attempt: int) -> Any:
    """Vote on the texts of a round with this party's rows, mask the votes and send them.

    Args:
        run_id: the coordinator's run.
        iteration: its iteration.
        attempt: which attempt at its vote, from 0.
    """
    if not _HERE:
        raise ConfigError("A round is carried out by the process of a party: wasp party --config party.yaml")
    party = _HERE[0]
    at = RoundId(run_id, iteration, attempt)
    done = PartyRound(party, party.exchange, party.member, at, party.keys, _tell).take_part()
    if done == "aborted":
        return Cancelled(name="Dropped", message="the coordinator gave this attempt up; nothing was sent")
    return Completed(name="Masked", message=redact(f"{done}; the sum of all parties is all that can be read"))


def _tell(stage: str) -> None:
    """Show how far this party is as the state of its flow run."""
    run = runtime.flow_run.id
    if run is None or stage == "masked":
        return
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(str(run)), Running(name=WORDS[stage]), force=True)
