"""The automation of the Prefect server that marks a run crashed when its heartbeat stops.

To be notified of failures, create further automations in the UI (docs/guides/prefect.md).
"""

import hashlib
from datetime import timedelta
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from flows.catalog import flow_names
from flows.runtime.flow_runs import ENDED

SILENCE = timedelta(seconds=90)
"""Three heartbeats of 30 seconds, because a busy machine may miss one."""
RUNS = "prefect.flow-run.*"


def declare(client: SyncPrefectClient) -> str:
    """Create the automation, or update that of another version; return its name. A disabled one stays disabled."""
    automation = silent_run()
    stored = client.read_automations_by_name(automation.name)
    if not stored:
        client.create_automation(automation)
    elif (
        stored[0].description != automation.description
    ):  # an update forgets the heartbeats of running runs
        client.update_automation(
            stored[0].id, automation.model_copy(update={"enabled": stored[0].enabled})
        )
    return automation.name


def silent_run() -> AutomationCore:
    """Return the automation; its description contains the version of this file."""
    message = "No heartbeat for 90 seconds: the process has died. Retry reuses finished steps."
    return AutomationCore(
        name="silent run is crashed",
        description="Marks a run Crashed if its process has died; otherwise it stays Running forever. Runs send a "
        "heartbeat every 30 seconds (PREFECT_FLOWS_HEARTBEAT_FREQUENCY). "
        f"(version {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]})",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": [RUNS]}),
            # Flows of others do not report their end after the last heartbeat.
            match_related=ResourceSpecification(
                {"prefect.resource.role": "flow", "prefect.resource.name": list(flow_names())}
            ),
            after={"prefect.flow-run.heartbeat"},
            expect={RUNS, ENDED},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=message)],
    )
