"""Prefect task of a federated vote: starts each party through its deployment and shows a table of the parties."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID, uuid4

from prefect import get_client, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_CLIENT_RETRY_EXTRA_CODES, temporary_settings
from prefect.states import Cancelled

from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.federation.messages import RoundId
from tasks.prefect.runtime import in_flow_process, outcome, step
from tasks.steps.federation import vote
from tasks.steps.federation.coordinator import Dropped
from tasks.steps.federation.party import BUSY
from tasks.steps.federation.vote import FederatedVote

POLL_SECONDS: Final = 2.0
"""Interval between two requests to Prefect for the states of the parties' runs."""
RUNS_PER_REQUEST: Final = 200
PARTY_FLOW: Final = "party_round"
NO_DEPLOYMENT: Final = (
    "has no deployment on this Prefect server; start it on its machine: wasp party --config party.yaml"
)


@step("vote of the parties t={job.spec.iteration}", retries=0, stays=in_flow_process)
def federated_vote(tools: Tools, job: FederatedVote, written: Sequence[Written], dropped: Dropped) -> Any:
    """Let the parties vote on their own machines and sum their masked votes."""
    caller = PrefectCaller()
    try:
        ref, why = vote.vote(tools, job, written, caller, dropped)
    finally:
        caller.flush()
    return outcome(ref, ref, why)


class PrefectCaller:
    """Starts each party's flow run and shows its state (implements `tasks.steps.federation.coordinator.Caller`)."""

    def __init__(self) -> None:
        self._runs: dict[RoundId, dict[str, UUID]] = {}
        self._over: dict[RoundId, set[str]] = {}
        self._checked = 0.0
        self._table: UUID | None = None
        self._shown = 0.0
        self._pending: tuple[RoundId, list[dict[str, Any]]] | None = None

    def call(self, parties: Sequence[str], at: RoundId) -> dict[str, str]:
        """Start a run of every party's deployment; its only parameters name the round."""
        started, call = self._runs.setdefault(at, {}), uuid4().hex
        unreached = {}
        with _retrying_client() as client:
            for party in parties:
                try:
                    started[party] = _start(client, party, at, call)
                except ObjectNotFound:
                    unreached[party] = NO_DEPLOYMENT
        self._over.pop(at, None)
        return unreached

    def over(self, at: RoundId) -> set[str]:
        """Return the parties whose runs have ended; Prefect is polled every 2 seconds."""
        if time.monotonic() - self._checked >= POLL_SECONDS:
            self._checked = time.monotonic()
            parties = {run: party for party, run in self._runs.get(at, {}).items()}
            try:
                with get_client(sync_client=True) as client:
                    self._over[at] = {parties[run] for run in _ended(client, list(parties))}
            except Exception as error:  # noqa: BLE001  (polled again soon; parties reply through the exchange)
                get_run_logger().warning(
                    "Prefect did not return the states of the parties' runs (%s)", type(error).__name__
                )
        return self._over.get(at, set())

    def drop(self, parties: Mapping[str, str], at: RoundId) -> None:
        """Cancel the runs of dropped parties; a killed party cannot end its own run."""
        runs = self._runs.get(at, {})
        with _retrying_client() as client:
            over = _ended(client, [runs[party] for party in parties if party in runs])
            for party, why in parties.items():
                if party in runs and runs[party] not in over:
                    state: State[Any] = Cancelled(name="Dropped", message=f"the coordinator dropped this party: {why}")
                    client.set_flow_run_state(runs[party], state, force=True)

    def show(self, at: RoundId, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show the parties as a table of the run, at most once a second."""
        self._pending = (at, [dict(row) for row in rows])
        if time.monotonic() - self._shown >= 1:
            self.flush()

    def flush(self) -> None:
        """Show the pending table; an unreachable page does not fail the round."""
        if self._pending is None:
            return
        (at, rows), self._pending, self._shown = self._pending, None, time.monotonic()
        about = f"Parties in iteration {at.iteration}, attempt {at.attempt + 1}"
        try:
            if self._table is None:
                self._table = UUID(str(create_table_artifact(rows, key=f"parties-{at.iteration}", description=about)))
            else:
                with get_client(sync_client=True) as client:
                    client.update_artifact(self._table, ArtifactUpdate(data=json.dumps(rows), description=about))
        except Exception as error:  # noqa: BLE001  (the round does not depend on the page)
            get_run_logger().warning("Prefect's page does not show the parties (%s)", type(error).__name__)


@contextmanager
def _retrying_client() -> Iterator[SyncPrefectClient]:
    """Yield a client that retries with increasing delays while the server is busy."""
    with temporary_settings({PREFECT_CLIENT_RETRY_EXTRA_CODES: set(BUSY)}), get_client(sync_client=True) as client:
        yield client


def _start(client: SyncPrefectClient, party: str, at: RoundId, call: str) -> UUID:
    """Start a party's flow run; repeating the same `call` returns the existing run."""
    deployment = client.read_deployment_by_name(f"{PARTY_FLOW}/{party}")
    run = client.create_flow_run_from_deployment(
        deployment.id,
        parameters={"run_id": at.run_id, "iteration": at.iteration, "attempt": at.attempt},
        name=f"{party} t={at.iteration} attempt {at.attempt + 1} of {at.run_id}",
        tags=["party", party, at.run_id],
        idempotency_key=f"{call}-{party}",
    )
    return UUID(str(run.id))


def _ended(client: SyncPrefectClient, runs: Sequence[UUID]) -> set[UUID]:
    ended: set[UUID] = set()
    for start in range(0, len(runs), RUNS_PER_REQUEST):
        selected = FlowRunFilter(id=FlowRunFilterId(any_=list(runs[start : start + RUNS_PER_REQUEST])))
        flow_runs = client.read_flow_runs(flow_run_filter=selected, limit=RUNS_PER_REQUEST)
        ended |= {run.id for run in flow_runs if run.state is not None and run.state.is_final()}
    return ended
