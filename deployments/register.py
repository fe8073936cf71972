"""Updates a Prefect server: work pool, deployments, automations.

Run `python -m deployments.register`. It writes only missing and outdated deployments. Edits of people on the server are
preserved (see `deployments.edits`), including schedules that a person added, activated, deactivated or removed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from httpx import HTTPStatusError
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.utilities.callables import parameter_schema

from connectors.interfaces.errors import ConfigError, WaspError
from connectors.interfaces.redaction import redact
from deployments.automations import declare
from deployments.edits import (
    ABSENT,
    RECORD,
    Edit,
    Values,
    catalogue_values,
    changed_fields,
    merge,
    recorded_values,
    server_values,
)
from deployments.registry import POOL, PULL_STEPS, Deployment, deployments


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of registering a deployment.

    Attributes:
        state: new, updated, same, or refused by the server because of `problem`.
        edits: preserved edits of people.
        active_schedules: slugs of the active schedules.
    """

    name: str
    state: str
    changed: Sequence[str] = ()
    edits: Sequence[Edit] = ()
    active_schedules: Sequence[str] = ()
    problem: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write missing and outdated deployments; print changes and preserved edits."""
    parser = argparse.ArgumentParser(prog="python -m deployments.register", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--reset", metavar="FLOW/NAME", action="append", default=[], help="discard the edits of this deployment"
    )
    reset = parser.parse_args(arguments).reset
    try:
        with get_client(sync_client=True) as client:
            _create_pool(client)
            print("\n".join(report(register(client, deployments(), reset))))
            print(f"automations: {', '.join(declare(client))}")
    except WaspError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def register(client: SyncPrefectClient, catalogue: Sequence[Deployment], reset: Collection[str] = ()) -> list[Outcome]:
    """Update the deployments of the catalogue; discard edits of those in `reset`."""
    names = [_name(deployment) for deployment in catalogue]
    unknown = sorted(set(reset) - set(names))
    if unknown:
        raise ConfigError(f"--reset {unknown[0]}: there is no such deployment. Choose one of: {', '.join(names)}")
    return [_register(client, deployment, _name(deployment) in reset) for deployment in catalogue]


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines to print: counts, then written and refused deployments."""
    states = [outcome.state for outcome in outcomes]
    written, same, refused = (
        states.count("new") + states.count("updated"),
        states.count("same"),
        states.count("refused"),
    )
    numbers = f"deployments: {written} registered, {same} unchanged"
    lines = [numbers + (f", {refused} NOT REGISTERED" if refused else "")]
    new = [outcome.name for outcome in outcomes if outcome.state == "new"]
    lines += [f"  new: {', '.join(new)}"] if new else []
    for outcome in outcomes:
        if outcome.state == "updated":
            lines.append(f"  updated {outcome.name}: {', '.join(outcome.changed) or 'version'}")
        if outcome.state == "refused":
            lines.append(f"  NOT REGISTERED {outcome.name}: {outcome.problem}")
        if outcome.state in ("updated", "refused"):
            lines += [f"    edit preserved: {edit}" for edit in outcome.edits]
            lines += [f"    active schedule preserved: {slug}" for slug in outcome.active_schedules]
    return lines


def _name(deployment: Deployment) -> str:
    return f"{deployment.flow}/{deployment.name}"


def _create_pool(client: SyncPrefectClient) -> None:
    try:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process", description="Runs on this machine."))
    except ObjectAlreadyExists:
        return


def _register(client: SyncPrefectClient, deployment: Deployment, reset: bool) -> Outcome:
    schema, values = _schema(deployment), catalogue_values(deployment)
    try:
        stored = client.read_deployment_by_name(_name(deployment))
    except ObjectNotFound:
        _create(client, deployment, values, schema)
        return Outcome(_name(deployment), "new")
    if _is_current(stored, deployment, schema) and not reset:
        return Outcome(_name(deployment), "same")
    return _update(client, deployment, stored, schema, reset)


def _is_current(stored: DeploymentResponse, deployment: Deployment, schema: Values) -> bool:
    """Return True if the server has this version and form, and a worker runs it."""
    is_served = stored.work_pool_name is None
    return not is_served and stored.version == deployment.version and _without_record(stored) == schema


def _without_record(stored: DeploymentResponse) -> Values:
    schema = dict(stored.parameter_openapi_schema or {})
    definitions = {name: value for name, value in schema.get("definitions", {}).items() if name != RECORD}
    return {**schema, "definitions": definitions}


def _schema(deployment: Deployment) -> Values:
    """Return the schema of the flow's parameters in the server's format."""
    module, _, name = deployment.entrypoint.rpartition(".")
    schema = parameter_schema(getattr(import_module(module), name)).model_dump(mode="json", exclude_unset=True)
    return {**schema, "definitions": schema.get("definitions", {})}


def _with_record(schema: Values, values: Values) -> Values:
    description = "Values written by the registration. A field with another value was edited by a person."
    record = {"description": description, "default": values}
    return {**schema, "definitions": {**schema["definitions"], RECORD: record}}


def _create(client: SyncPrefectClient, deployment: Deployment, values: Values, schema: Values) -> None:
    client.create_deployment(
        flow_id=client.create_flow_from_name(deployment.flow),
        name=deployment.name,
        version=deployment.version,
        entrypoint=deployment.entrypoint,
        pull_steps=PULL_STEPS,
        schedules=[_schedule(schedule) for schedule in deployment.schedules],
        parameter_openapi_schema=_with_record(schema, values),
        enforce_parameter_schema=True,
        **_fields({name: value for name, value in values.items() if name != "schedules"}),
    )


def _update(
    client: SyncPrefectClient, deployment: Deployment, stored: DeploymentResponse, schema: Values, reset: bool
) -> Outcome:
    """Write the catalogue's values except for edits; leave schedules on or off."""
    values, current = catalogue_values(deployment), server_values(stored)
    written = recorded_values(stored, deployment)
    if stored.work_pool_name is None:  # registered by `wasp serve`; the worker takes it over
        written = {**written, "work_pool_name": ABSENT}
    if reset:
        written = {**current, "schedules": written.get("schedules", {})}
    merged, edits = merge(written, current, values)
    merged["schedules"] = {**current["schedules"], **merged["schedules"]}
    changed = changed_fields(current, merged) + (["form"] if _without_record(stored) != schema else [])
    outcome = Outcome(
        _name(deployment),
        "updated",
        changed,
        edits,
        active_schedules=[s.slug or "" for s in stored.schedules if s.active],
    )
    updates = {name: value for name, value in merged.items() if name != "schedules" and value != current[name]}
    update = DeploymentUpdate(
        version=deployment.version,
        entrypoint=deployment.entrypoint,
        pull_steps=PULL_STEPS,
        parameter_openapi_schema=_with_record(schema, values),
        **_fields(updates),
    )
    # Write the record last: a missing schedule that it contains was removed by a person.
    _update_schedules(client, deployment, stored, merged["schedules"])
    try:
        client.update_deployment(stored.id, update)
    except HTTPStatusError as error:
        is_edited = any(edit.field.startswith("parameters") for edit in edits)
        if not is_edited or error.response.status_code not in (409, 422):
            raise
        return _refused(outcome, error)
    return outcome


def _refused(outcome: Outcome, error: HTTPStatusError) -> Outcome:
    detail = redact(str(error.response.json().get("detail", error)))
    problem = (
        f"edited parameters do not fit this version ({detail}). The deployment is unchanged. Correct them on its page, "
        f"or discard its edits: python -m deployments.register --reset {outcome.name}"
    )
    return replace(outcome, state="refused", problem=problem)


def _update_schedules(
    client: SyncPrefectClient, deployment: Deployment, stored: DeploymentResponse, merged: Values
) -> None:
    """Create the schedules that are new in the catalogue, and update unedited ones."""
    present = {schedule.slug: schedule for schedule in stored.schedules}
    for schedule in deployment.schedules:
        slug = schedule["slug"]
        if slug in merged and slug not in present:
            client.create_deployment_schedules(stored.id, [_schedule(schedule)])
        elif slug in merged and merged[slug] != server_values(stored)["schedules"][slug]:
            client.update_deployment_schedule(stored.id, present[slug].id, schedule=_schedule(schedule).schedule)


def _schedule(values: Values) -> DeploymentScheduleCreate:
    cron = CronSchedule(cron=values["cron"], timezone=values["timezone"])
    return DeploymentScheduleCreate(schedule=cron, active=values["active"], slug=values["slug"])


def _fields(values: Values) -> dict[str, Any]:
    """Return the values as arguments of Prefect's client."""
    fields = {name: value for name, value in values.items() if name != "collision_strategy"}
    if values.get("collision_strategy"):
        fields["concurrency_options"] = ConcurrencyOptions(collision_strategy=values["collision_strategy"])
    return fields


if __name__ == "__main__":
    sys.exit(main())
