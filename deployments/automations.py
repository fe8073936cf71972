"""The automations of the Prefect server: one that acts, and two that an operator enables.

The server marks a run crashed when its heartbeat stops. Disabled until an operator enables them in the UI: a
notification when a dataset has less than 20 % of its budget left, and the deployment `train-on-bundle` after each
export. To be notified of failures, create further automations (docs/guides/prefect.md).
"""

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, DoNothing, RunDeployment
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound

from flows.catalog import flow_names
from flows.runtime.budget_events import CHARGED, LEFT_LABEL, left_range
from flows.runtime.flow_runs import ENDED

SILENCE = timedelta(seconds=90)
"""Three heartbeats of 30 seconds, because a busy machine may miss one."""
RUNS = "prefect.flow-run.*"
LOW_BUDGET = "budget below 20 %"
LOW_BUDGET_EVERY = timedelta(days=1)
"""At most one notification in this time for each dataset: each of a run's releases is a charge."""
DOWNSTREAM = "train on each exported bundle"
DOWNSTREAM_DEPLOYMENT = "train-on-bundle/train-on-bundle"
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def declare(client: SyncPrefectClient) -> Iterator[str]:
    """Create the automations, or update those of another version; yield their names, with those that are disabled.

    An automation that was enabled or disabled stays so. Actions of the two that an operator enables stay, too.
    """
    downstream = client.read_deployment_by_name(DOWNSTREAM_DEPLOYMENT).id
    for automation in (silent_run(), low_budget(), train_on_export(downstream)):
        is_enabled = _declare(client, automation)
        yield automation.name if is_enabled else f"{automation.name} (disabled)"


def _declare(client: SyncPrefectClient, automation: AutomationCore) -> bool:
    """Create or update one automation; return True if it is enabled."""
    stored = client.read_automations_by_name(automation.name)
    if not stored:
        client.create_automation(automation)
        return automation.enabled
    present = stored[0]
    starts_nothing = _starts_nothing(client, present)
    # Only if necessary: an update forgets the heartbeats of running runs.
    if starts_nothing or present.description != automation.description:
        stored_values: dict[str, object] = {"enabled": present.enabled}
        if not automation.enabled and not starts_nothing:
            stored_values["actions"] = present.actions
        update(client, present.id, automation.model_copy(update=stored_values))
    return present.enabled


def update(client: SyncPrefectClient, automation_id: UUID, automation: AutomationCore) -> None:
    """Replace a stored automation."""
    # Prefect's client leaves out what has its default, also the type of an action, which the server then takes for one
    # that does nothing. Read from JSON, no field counts as a default. The server accepts no owner in an update.
    values = automation.model_dump(mode="json", exclude={"owner_resource"})
    client.update_automation(automation_id, AutomationCore.model_validate(values))


def _starts_nothing(client: SyncPrefectClient, automation: Automation) -> bool:
    """Return whether an automation starts a deployment that was deleted."""
    for action in automation.actions:
        if isinstance(action, RunDeployment) and action.deployment_id is not None:
            try:
                client.read_deployment(action.deployment_id)
            except ObjectNotFound:
                return True
    return False


def low_budget() -> AutomationCore:
    """Return the automation for budgets that are nearly spent; its operator replaces the action by a notification."""
    return AutomationCore(
        name=LOW_BUDGET,
        description="Once a day for each dataset with less than 20 % of its cap left after a charge. Replace the "
        f"action by a notification, then enable it. (version {VERSION})",
        enabled=False,
        trigger=EventTrigger(
            # By label, because a trigger compares no numbers.
            match=ResourceSpecification(
                {
                    "prefect.resource.id": ["wasp.dataset.*"],
                    LEFT_LABEL: [left_range(0.05), left_range(0.15)],
                }
            ),
            expect={CHARGED},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=LOW_BUDGET_EVERY,
        ),
        actions=[DoNothing()],
    )


def train_on_export(deployment: UUID) -> AutomationCore:
    """Return the automation that starts a deployment with the folder of each exported bundle."""
    folder = {"__prefect_kind": "jinja", "template": "{{ event.payload.folder }}"}
    return AutomationCore(
        name=DOWNSTREAM,
        description="Starts train-on-bundle when an export that passed the release gate has materialised its bundle. "
        f"Enable it to use it. (version {VERSION})",
        enabled=False,
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": ["wasp://bundle/*"]}),
            expect={"prefect.asset.materialization.succeeded"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[RunDeployment(deployment_id=deployment, parameters={"folder": folder})],
    )


def silent_run() -> AutomationCore:
    """Return the automation; its description contains the version of this file."""
    message = "No heartbeat for 90 seconds: the process has died. Retry reuses finished steps."
    return AutomationCore(
        name="silent run is crashed",
        description="Marks a run Crashed if its process has died; otherwise it stays Running forever. Runs send a "
        "heartbeat every 30 seconds (PREFECT_FLOWS_HEARTBEAT_FREQUENCY). "
        f"(version {VERSION})",
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
