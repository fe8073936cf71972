"""Task runs that a dead attempt left open end as crashed, and those of the present attempt are left alone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest
from prefect import flow, get_client, runtime, task
from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from prefect.states import Pending

from flows.runtime.flow_runs import end_left_tasks


@pytest.fixture
def server(api: str) -> Iterator[str]:
    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield api


@task
def write() -> None:
    """A step of a run."""


@pytest.mark.parametrize("is_of_present_attempt", [True, False])
@pytest.mark.usefixtures("server")
def test_a_pending_step_is_crashed_only_if_it_is_older_than_the_attempt(
    is_of_present_attempt: bool,
) -> None:
    @flow
    def run() -> UUID:
        own = runtime.flow_run.id
        assert own is not None
        moments = [datetime.now(UTC)]
        with get_client(sync_client=True) as client:
            pending = client.create_task_run(
                write, flow_run_id=UUID(own), dynamic_key="write-0", state=Pending()
            )
        moments.append(datetime.now(UTC))
        end_left_tasks(None, moments[0] if is_of_present_attempt else moments[1])
        return pending.id

    made = run()
    with get_client(sync_client=True) as client:
        state = client.read_task_run(made).state
    assert state is not None
    assert state.name == ("Pending" if is_of_present_attempt else "Crashed")
