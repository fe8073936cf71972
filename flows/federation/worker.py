"""Prefect worker of `wasp party`, which executes rounds in its own process.

It creates its work pool and deployment on the coordinator's server, so a party needs no server.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import anyio
from httpx import HTTPStatusError, TransportError
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, StateType, WorkPoolStatus
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectHTTPStatusError
from prefect.flow_engine import run_flow
from prefect.settings import temporary_settings
from prefect.states import AwaitingRetry
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.progress import chunks
from flows.federation.flow import party_round, set_party
from flows.federation.party import Party
from tasks.steps.federation.party_round import give_back_ended, register_rows

TYPE = "wasp-party"
POOL = "party-"
"""Prefix of the parties' work pool names."""
PAGE = 100
ROUNDS_AT_ONCE = 8
TIMEOUT_SECONDS = 60.0
"""Timeout for a server that does not respond yet."""
BUSY_SECONDS = 600.0
"""Timeout for the registration on a busy server: many parties may register at once."""
GIVEN_UP = "error threshold"
"""Part of the error message of a Prefect worker that stops after repeated failed requests."""
SERVER_AWAY = "the Prefect server no longer responds; retrying until it does"


class PartyResult(BaseWorkerResult):
    """Result of an executed round; the state of the flow run contains the outcome."""


class PartyWorker(BaseWorker[BaseJobConfiguration, BaseVariables, PartyResult]):
    """Worker that runs this party's rounds in threads, so rows stay loaded."""

    type = TYPE
    job_configuration = BaseJobConfiguration
    job_configuration_variables = BaseVariables
    _description = "A party of a federation: votes with its own rows, in its own process."

    async def run(
        self,
        flow_run: FlowRun,
        configuration: BaseJobConfiguration,  # noqa: ARG002  (nothing is started)
        task_status: anyio.abc.TaskStatus[int] | None = None,
    ) -> PartyResult:
        """Execute a round; the state of the flow run contains its errors."""
        if task_status is not None:
            task_status.started(os.getpid())
        round_ = partial(run_flow, party_round, flow_run=flow_run, parameters=flow_run.parameters, return_type="state")
        await anyio.to_thread.run_sync(round_)
        return PartyResult(identifier=str(flow_run.id), status_code=0)


def serve_party(party: Party) -> None:
    """Execute this party's rounds until interrupted.

    Raises ConfigError if the server is unusable.
    """
    register_rows(party, party.member)  # rows that cannot be used end the start, never a round
    set_party(party)
    give_back_ended(party, party.exchange)
    timeout = TIMEOUT_SECONDS
    with temporary_settings(party.settings()):
        while True:
            with get_client(sync_client=True) as client:
                _wait_for_server(client, timeout)
                _retry_while_busy(partial(_register, client, party), max(timeout, BUSY_SECONDS))
            worker = PartyWorker(work_pool_name=pool_of(party), name=party.config.name, limit=ROUNDS_AT_ONCE)
            try:
                return anyio.run(partial(worker.start, printer=_quiet))
            except Exception as error:
                if not was_away(error):
                    raise
            timeout = math.inf  # the server worked before, so the outage is temporary
            sys.stderr.write(f"party {party.config.name}: {SERVER_AWAY}\n")


def was_away(error: BaseException) -> bool:
    """Return whether a worker stopped because the server was down or too busy."""
    if isinstance(error, BaseExceptionGroup):
        return all(was_away(nested) for nested in error.exceptions)
    if isinstance(error, HTTPStatusError):
        return error.response.status_code >= 500
    return isinstance(error, TransportError) or (isinstance(error, RuntimeError) and GIVEN_UP in str(error))


def refusal(client: SyncPrefectClient, error: PrefectHTTPStatusError) -> str:
    """Return the message for a server that refuses a party."""
    url, status = client.api_url, error.response.status_code
    return f"The Prefect server at {url} refuses this party ({status}). Set PREFECT_API_AUTH_STRING=user:password"


def party_states(client: SyncPrefectClient, parties: Sequence[str]) -> dict[str, str]:
    """Return `waiting` for each party that polls this server, else its state."""
    pools = {f"{POOL}{party}": party for party in parties}
    states = dict.fromkeys(parties, "never started with this server")
    for names in chunks(list(pools), PAGE):
        pool_filter = WorkPoolFilter(name=WorkPoolFilterName(any_=list(names)))
        for pool in client.read_work_pools(work_pool_filter=pool_filter, limit=PAGE):
            states[pools[pool.name]] = "waiting" if pool.status == WorkPoolStatus.READY else "does not poll for work"
    return states


def leave(party: Party) -> dict[str, Any]:
    """Remove this party's deployment and work pool.

    Return the unspent reservations of ended runs.
    """
    ended = give_back_ended(party, party.exchange)
    with temporary_settings(party.settings()), get_client(sync_client=True) as client:
        _wait_for_server(client, TIMEOUT_SECONDS)
        with contextlib.suppress(ObjectNotFound):
            client.delete_deployment(_deployment(client, party))
        with contextlib.suppress(ObjectNotFound):
            client.delete_work_pool(pool_of(party))
    return {"party": party.config.name, "pool": pool_of(party), "ended_runs": ended}


def pool_of(party: Party) -> str:
    """Return the name of a party's work pool."""
    return f"{POOL}{party.config.name}"


def _wait_for_server(client: SyncPrefectClient, seconds: float) -> None:
    """Wait for the server; ConfigError with the last problem after the timeout."""
    deadline = time.monotonic() + seconds
    while (problem := client.api_healthcheck()) is not None and time.monotonic() < deadline:
        time.sleep(1)
    if problem is not None:
        raise ConfigError(f"{client.api_url}: no Prefect server responds ({type(problem).__name__}: {problem})")


def _retry_while_busy(work: Callable[[], None], seconds: float, pause: float = 2.0) -> None:
    """Retry `work` while the server is too busy to respond."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except (PrefectHTTPStatusError, TransportError) as error:
            if not was_away(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause * (1 + random.random()))  # spreads the retries of many parties


def _register(client: SyncPrefectClient, party: Party) -> None:
    """Create work pool and deployment; reschedule runs of an earlier process."""
    try:
        client.create_work_pool(
            WorkPoolCreate(
                name=pool_of(party),
                type=TYPE,
                description="One party of a federation.",
                base_job_template=PartyWorker.get_default_base_job_template(),
            )
        )
    except ObjectAlreadyExists:
        pass
    except PrefectHTTPStatusError as error:
        if error.response.status_code >= 500:
            raise
        raise ConfigError(refusal(client, error)) from None
    deployment = client.create_deployment(
        flow_id=client.create_flow_from_name(party_round.name),
        name=party.config.name,
        entrypoint="flows.federation.flow.party_round",
        work_pool_name=pool_of(party),
        tags=["party"],
        description="Votes of one party; started by a coordinator's run.",
    )
    _reschedule(client, [deployment])


def _reschedule(client: SyncPrefectClient, deployments: Sequence[UUID]) -> None:
    """Reschedule runs that a killed process of this party left unfinished."""
    deployment_filter = DeploymentFilter(id=DeploymentFilterId(any_=list(deployments)))
    for run in client.read_flow_runs(deployment_filter=deployment_filter, limit=100):
        if run.state is not None and run.state.type in (StateType.RUNNING, StateType.PENDING):
            client.set_flow_run_state(run.id, AwaitingRetry(), force=True)


def _deployment(client: SyncPrefectClient, party: Party) -> UUID:
    return UUID(str(client.read_deployment_by_name(f"{party_round.name}/{party.config.name}").id))


def _quiet(*_: object) -> None:
    """Print nothing, because the command prints its own messages."""
