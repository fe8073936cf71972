"""What the server does on its own: runs that fell silent are marked crashed, failures and high budgets become notices.

To be told elsewhere (Slack, mail, a webhook), make a notification block in the UI and put
`SendNotification(block_document_id=..., subject=..., body=...)` in the place of `RunDeployment`.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState, RunDeployment
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from flows.catalog import flow_names
from flows.engine.spending import HIGH_BUDGET

SILENCE = timedelta(seconds=90)
"""Three heartbeats of 30 seconds: a machine that is busy for a moment is not dead."""
RUNS = "prefect.flow-run.*"


def declare(client: SyncPrefectClient) -> list[str]:
    """Make the automations that are missing or out of date and return their names; a switched-off one stays off."""
    notice = client.read_deployment_by_name("notice/notice").id
    wanted = [silent_run(), failed_run(notice), high_budget(notice)]
    for one in wanted:
        found = client.read_automations_by_name(one.name)
        if not found:
            client.create_automation(_versioned(one))
        elif found[0].description != _versioned(one).description:
            client.update_automation(found[0].id, _versioned(one).model_copy(update={"enabled": found[0].enabled}))
    return [one.name for one in wanted]


def silent_run() -> AutomationCore:
    """Mark a run crashed when its heartbeat stops: its machine, or worker and run together, are gone."""
    message = "No heartbeat for 90 seconds: the process is gone. Retry continues from what is finished."
    return AutomationCore(
        name="silent run is crashed",
        description="A run whose process is gone would stay Running for ever. Runs must beat every 30 seconds "
        "(PREFECT_FLOWS_HEARTBEAT_FREQUENCY).",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": [RUNS]}),
            after={"prefect.flow-run.heartbeat"},
            expect={RUNS},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=message)],
    )


def failed_run(notice: UUID) -> AutomationCore:
    """Write a notice when a run of the catalogue fails or crashes; a failed notice gives no further one."""
    flows: dict[str, Any] = {"prefect.resource.role": "flow", "prefect.resource.name": list(flow_names())}
    return AutomationCore(
        name="failed run gives a notice",
        description="Writes what failed and why to notices.jsonl and to the artifact 'notices'.",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": [RUNS]}),
            match_related=ResourceSpecification(flows),
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            _notice(
                notice,
                "Run {{ flow_run.name }} of {{ flow.name }}: {{ flow_run.state.name }}",
                "{{ flow_run.state.message }}\n\nRetry in the UI continues from what is finished.",
                "{{ flow_run.id }}",
            )
        ],
    )


def high_budget(notice: UUID) -> AutomationCore:
    """Write a notice when a dataset has spent most of its cap."""
    return AutomationCore(
        name="high budget gives a notice",
        description="A run says so after the release that takes a dataset past 80 % of its cap.",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": ["wasp.dataset.*"]}),
            expect={HIGH_BUDGET},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            _notice(
                notice,
                "Dataset {{ event.payload.dataset }} has spent {{ event.payload.percent }} % of its privacy budget",
                "Spent epsilon {{ event.payload.spent }} of {{ event.payload.cap }}; left {{ event.payload.left }}. "
                "Runs that need more will be refused until its owner raises the cap: "
                "wasp budget cap {{ event.payload.dataset }} --epsilon E",
                "{{ event.payload.flow_run }}",
            )
        ],
    )


def _notice(deployment: UUID, subject: str, text: str, run: str) -> ActionTypes:
    kinds = {"subject": subject, "text": text, "run": run}
    parameters = {name: {"__prefect_kind": "jinja", "template": words} for name, words in kinds.items()}
    return RunDeployment(deployment_id=deployment, parameters=parameters)


def _versioned(one: AutomationCore) -> AutomationCore:
    """Write into the description which version of this file it comes from, so that a change is noticed."""
    content = (
        Path(__file__).read_bytes() + str([getattr(action, "deployment_id", "") for action in one.actions]).encode()
    )
    version = hashlib.sha256(content).hexdigest()[:8]
    return one.model_copy(update={"description": f"{one.description} (version {version})"})
