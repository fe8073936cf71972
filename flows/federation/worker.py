"""`wasp party`: a Prefect worker that carries out its party's rounds in its own process.

It makes its work pool and its deployment on the coordinator's server and needs no server of its own.
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
from flows.federation.flow import party_round, settle
from flows.federation.party import Party
from tasks.steps.federation.party_round import give_back_ended

TYPE = "wasp-party"
POOL = "party-"
"""How the names of parties' work pools begin."""
PAGE = 100
ROUNDS_AT_ONCE = 8
PATIENCE_SECONDS = 60.0
"""How long a party waits for a server that does not answer yet."""
BUSY_SECONDS = 600.0
"""How long it waits to be registered by one that is too busy to: many parties may come at once."""
GIVEN_UP = "error threshold"
"""In the words with which a worker of Prefect ends after a dozen questions without an answer, each later."""
SERVER_AWAY = "the Prefect server does not answer any more; asking until it does"


class PartyResult(BaseWorkerResult):
    """That a round was carried out; how it went is the flow run's own state."""


class PartyWorker(BaseWorker[BaseJobConfiguration, BaseVariables, PartyResult]):
    """Carries out flow runs of this party in threads of its own process: rows and vectors stay loaded."""

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
        """Carry a round out; its errors are told by the flow run's own state."""
        if task_status is not None:
            task_status.started(os.getpid())
        round_ = partial(run_flow, party_round, flow_run=flow_run, parameters=flow_run.parameters, return_type="state")
        await anyio.to_thread.run_sync(round_)
        return PartyResult(identifier=str(flow_run.id), status_code=0)


def serve_party(party: Party) -> None:
    """Carry out this party's rounds until it is interrupted; ConfigError if the server cannot be used."""
    assert party.member.name  # the registry has its key, or says that it has not
    settle(party)
    give_back_ended(party, party.exchange)
    patience = PATIENCE_SECONDS
    with temporary_settings(party.settings()):
        while True:
            with get_client(sync_client=True) as client:
                _check(client, patience)
                _patiently(partial(_register, client, party), max(patience, BUSY_SECONDS))
            worker = PartyWorker(work_pool_name=pool_of(party), name=party.config.name, limit=ROUNDS_AT_ONCE)
            try:
                return anyio.run(partial(worker.start, printer=_quiet))
            except Exception as error:
                if not was_away(error):
                    raise
            patience = math.inf  # it has worked with this server: whatever keeps it away ends some time
            sys.stderr.write(f"party {party.config.name}: {SERVER_AWAY}\n")


def was_away(error: BaseException) -> bool:
    """Say of what ended a worker whether it was a server that did not answer, or was too busy to, for long."""
    if isinstance(error, BaseExceptionGroup):
        return all(was_away(one) for one in error.exceptions)
    if isinstance(error, HTTPStatusError):
        return error.response.status_code >= 500
    return isinstance(error, TransportError) or (isinstance(error, RuntimeError) and GIVEN_UP in str(error))


def refusal(client: SyncPrefectClient, error: PrefectHTTPStatusError) -> str:
    """Say that a server refuses, and what to set."""
    where, status = client.api_url, error.response.status_code
    return f"The Prefect server at {where} refuses this party ({status}); set PREFECT_API_AUTH_STRING=user:password"


def party_states(client: SyncPrefectClient, parties: Sequence[str]) -> dict[str, str]:
    """Return of each party whether its worker waits for rounds on this server, and if not, what is known of it."""
    pools = {f"{POOL}{party}": party for party in parties}
    states = dict.fromkeys(parties, "was never started with this server")
    for some in chunks(list(pools), PAGE):
        where = WorkPoolFilter(name=WorkPoolFilterName(any_=list(some)))
        for pool in client.read_work_pools(work_pool_filter=where, limit=PAGE):
            states[pools[pool.name]] = "waiting" if pool.status == WorkPoolStatus.READY else "does not ask for work"
    return states


def leave(party: Party) -> dict[str, Any]:
    """Take this party's deployment and work pool off the server, and give back what ended runs set aside."""
    ended = give_back_ended(party, party.exchange)
    with temporary_settings(party.settings()), get_client(sync_client=True) as client:
        _check(client, PATIENCE_SECONDS)
        with contextlib.suppress(ObjectNotFound):
            client.delete_deployment(_deployment(client, party))
        with contextlib.suppress(ObjectNotFound):
            client.delete_work_pool(pool_of(party))
    return {"party": party.config.name, "pool": pool_of(party), "ended_runs": ended}


def pool_of(party: Party) -> str:
    """Return the name of a party's work pool."""
    return f"{POOL}{party.config.name}"


def _check(client: SyncPrefectClient, seconds: float) -> None:
    """Wait a while for the server; ConfigError with what was wrong last."""
    deadline = time.monotonic() + seconds
    while (problem := client.api_healthcheck()) is not None and time.monotonic() < deadline:
        time.sleep(1)
    if problem is not None:
        raise ConfigError(f"No Prefect server answers at {client.api_url} ({type(problem).__name__}: {problem})")


def _patiently(work: Callable[[], None], seconds: float, pause: float = 2.0) -> None:
    """Do something on the server again while it is too busy to answer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except (PrefectHTTPStatusError, TransportError) as error:
            if not was_away(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause * (1 + random.random()))  # not all together


def _register(client: SyncPrefectClient, party: Party) -> None:
    """Make work pool and deployment where they are missing, and take up what an earlier process left unfinished."""
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
    _take_up(client, [deployment])


def _take_up(client: SyncPrefectClient, deployments: Sequence[UUID]) -> None:
    """Let runs that a killed process of this party left in the air be carried out again."""
    where = DeploymentFilter(id=DeploymentFilterId(any_=list(deployments)))
    for run in client.read_flow_runs(deployment_filter=where, limit=100):
        if run.state is not None and run.state.type in (StateType.RUNNING, StateType.PENDING):
            client.set_flow_run_state(run.id, AwaitingRetry(), force=True)


def _deployment(client: SyncPrefectClient, party: Party) -> UUID:
    return UUID(str(client.read_deployment_by_name(f"{party_round.name}/{party.config.name}").id))


def _quiet(*words: object) -> None:
    """Say nothing: the command has its own words."""
