"""Flow that a party executes in each round of a coordinator.

Its parameters identify the round.
"""

# No postponed annotations: Prefect sends a served flow to another process and needs their values.
from typing import Any
from uuid import UUID

from prefect import flow, get_client, runtime
from prefect.states import Cancelled, Completed, Running

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact
from flows.federation.party import Party
from tasks.federation.messages import RoundId
from tasks.steps.federation.party_round import PartyRound

STATE_NAMES = {"joined": "Joined", "ready": "Voted", "masked": "Masked"}
_PARTY: list[Party] = []
"""The party of this process."""


def set_party(party: Party) -> None:
    """Set the party of this process."""
    _PARTY[:] = [party]


@flow(name="party_round", validate_parameters=True, persist_result=False, log_prints=False)
def party_round(run_id: str, iteration: int, attempt: int) -> Any:
    """Vote on the texts of a round with this party's rows; send masked votes.

    Args:
        run_id: the coordinator's run.
        iteration: iteration of the run.
        attempt: number of the attempt at the vote, from 0.
    """
    if not _PARTY:
        raise ConfigError("No party runs in this process. Start a party with: wasp party --config party.yaml")
    party = _PARTY[0]
    round_id = RoundId(run_id, iteration, attempt)
    result = PartyRound(party, party.exchange, party.member, round_id, party.keys, _show_stage).take_part()
    if result == "aborted":
        return Cancelled(name="Dropped", message="the coordinator abandoned this attempt; nothing was sent")
    return Completed(name="Masked", message=redact(f"{result}; only the sum of all parties can be read"))


def _show_stage(stage: str) -> None:
    """Show the stage of this party as the state of its flow run."""
    run = runtime.flow_run.id
    if run is None or stage == "masked":
        return
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(str(run)), Running(name=STATE_NAMES[stage]), force=True)
