"""Automations of the Prefect server: crashed runs, failures and high budgets.

Runs without a heartbeat are marked crashed; failures and high budgets become notices. To send notices to Slack, mail or
a webhook, create a notification block in the UI and replace `RunDeployment` by
`SendNotification(block_document_id=..., subject=..., body=...)`.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState, RunDeployment
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from flows.catalog import flow_names
from flows.engine.spending import HIGH_BUDGET
from flows.runtime.flow_runs import ENDED

SILENCE = timedelta(seconds=90)
"""Three heartbeats of 30 seconds, because a busy machine may miss one."""
RUNS = "prefect.flow-run.*"


def declare(client: SyncPrefectClient) -> list[str]:
    """Create missing and update outdated automations; return all names.

    A disabled automation stays disabled.
    """
    notice = client.read_deployment_by_name("notice/notice").id
    automations = [silent_run(), failed_run(notice), high_budget(notice)]
    for automation in automations:
        stored = client.read_automations_by_name(automation.name)
        versioned = _versioned(automation)
        if not stored:
            client.create_automation(versioned)
        elif stored[0].description != versioned.description:
            client.update_automation(stored[0].id, versioned.model_copy(update={"enabled": stored[0].enabled}))
    return [automation.name for automation in automations]


def silent_run() -> AutomationCore:
    """Return the automation that marks a run crashed when its heartbeat stops."""
    message = "No heartbeat for 90 seconds: the process has died. Retry reuses finished steps."
    return AutomationCore(
        name="silent run is crashed",
        description="Marks a run Crashed if its process has died; otherwise it stays Running forever. Runs send a "
        "heartbeat every 30 seconds (PREFECT_FLOWS_HEARTBEAT_FREQUENCY).",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": [RUNS]}),
            match_related=_own_flows(),  # others, such as notices, do not report their end after the last heartbeat
            after={"prefect.flow-run.heartbeat"},
            expect={RUNS, ENDED},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=message)],
    )


def failed_run(notice: UUID) -> AutomationCore:
    """Return the automation that writes a notice when a flow fails, crashes or ends degraded."""
    return AutomationCore(
        name="failed run gives a notice",
        description="Writes a failure, or what a degraded run lacks, to notices.jsonl and to the artifact 'notices'.",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": [RUNS]}),
            match_related=_own_flows(),
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed", "prefect.flow-run.Degraded"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            _notice(
                notice,
                "Run {{ flow_run.name }} of {{ flow.name }}: {{ flow_run.state.name }}",
                "{{ flow_run.state.message }}",
                "{{ flow_run.id }}",
            )
        ],
    )


def high_budget(notice: UUID) -> AutomationCore:
    """Return the automation that writes a notice when a budget is mostly spent."""
    return AutomationCore(
        name="high budget gives a notice",
        description="Writes a notice when a release takes a dataset past 80 % of its cap.",
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
                "Spent epsilon {{ event.payload.spent }} of {{ event.payload.cap }}; {{ event.payload.left }} is left. "
                "Runs that need more are refused until the data owner raises the cap: "
                "wasp budget cap {{ event.payload.dataset }} --epsilon E",
                "{{ event.payload.flow_run }}",
            )
        ],
    )


def _own_flows() -> ResourceSpecification:
    return ResourceSpecification({"prefect.resource.role": "flow", "prefect.resource.name": list(flow_names())})


def _notice(deployment: UUID, subject: str, text: str, run: str) -> ActionTypes:
    templates = {"subject": subject, "text": text, "run": run}
    parameters = {name: {"__prefect_kind": "jinja", "template": template} for name, template in templates.items()}
    return RunDeployment(deployment_id=deployment, parameters=parameters)


def _versioned(automation: AutomationCore) -> AutomationCore:
    """Add the version of this file to the description, to detect changes."""
    deployment_ids = [getattr(action, "deployment_id", "") for action in automation.actions]
    content = Path(__file__).read_bytes() + str(deployment_ids).encode()
    version = hashlib.sha256(content).hexdigest()[:8]
    return automation.model_copy(update={"description": f"{automation.description} (version {version})"})
