"""Edits that people make to deployments in the UI, and the merge that keeps them when a deployment is updated.

Registration leaves a record in the deployment: the values that it wrote. A value that differs from its record was
edited, and stays; all others follow the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from prefect.client.schemas.responses import DeploymentResponse

from deployments.registry import CONCURRENCY, ENVIRONMENT, POOL, Deployment

Values = dict[str, Any]
RECORD = "WrittenByRegistration"
"""Name of the record among the definitions of the parameter schema: the one place that only registration writes."""
ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Edit:
    """A field that a person changed: its value now, and the one of the catalogue (`ABSENT`: there is none)."""

    field: str
    value: Any
    catalogue: Any

    def __str__(self) -> str:
        """Name the field; numbers and tags are shown, but no text: it may say where private rows are."""
        now, instead = _shown(self.value), _shown(self.catalogue)
        return f"{self.field} = {now} (catalogue: {instead})" if now and instead else self.field


def catalogue_values(deployment: Deployment) -> Values:
    """Return the values of the catalogue that a person may edit on the server, schedules by slug included."""
    return {
        "parameters": deployment.parameters,
        "description": deployment.description,
        "tags": list(deployment.tags),
        "job_variables": {"env": dict(ENVIRONMENT)},
        "concurrency_limit": CONCURRENCY["limit"],
        "collision_strategy": CONCURRENCY["collision_strategy"],
        "work_pool_name": POOL,
        "schedules": {s["slug"]: {"cron": s["cron"], "timezone": s["timezone"]} for s in deployment.schedules},
    }


def server_values(found: DeploymentResponse) -> Values:
    """Return the same values as the server has them; one that `wasp serve` registered has no work pool yet."""
    limit, options = found.global_concurrency_limit, found.concurrency_options
    schedules = {
        s.slug: {name: getattr(s.schedule, name, None) for name in ("cron", "timezone")} for s in found.schedules
    }
    return {
        "parameters": found.parameters,
        "description": found.description,
        "tags": found.tags,
        "job_variables": found.job_variables,
        "concurrency_limit": limit.limit if limit else None,
        "collision_strategy": options.collision_strategy.value if options else None,
        "work_pool_name": found.work_pool_name or ABSENT,
        "schedules": {slug: schedule for slug, schedule in schedules.items() if slug is not None},
    }


def recorded_values(found: DeploymentResponse, deployment: Deployment) -> Values:
    """Return the values that registration wrote last.

    Without a record (an earlier version, `prefect deploy`, `wasp serve`) the version decides, a digest of the values:
    if it fits, nobody edited them; if not, everything that differs from the catalogue counts as edited.
    """
    record = (found.parameter_openapi_schema or {}).get("definitions", {}).get(RECORD)
    if record is not None:
        values: Values = record["default"]
        return values
    same = replace(
        deployment,
        entrypoint=found.entrypoint or "",
        description=found.description or "",
        tags=tuple(found.tags),
        parameters=found.parameters,
    )
    return server_values(found) if same.version == found.version else {}


def merge(written: Any, current: Any, catalogue: Any, field: str = "") -> tuple[Any, list[Edit]]:
    """Return the value after an update, and the edits that it keeps.

    A value follows the catalogue unless it differs from what registration wrote. Mappings are merged key by key, tags
    one by one; other lists count as one value.
    """
    if current in (written, catalogue):
        return catalogue, []
    if field == "tags":
        return _merge_tags(written, current, catalogue)
    if not (isinstance(current, dict) and isinstance(catalogue, dict)):
        return current, [Edit(field, current, catalogue)]
    merged: Values = {}
    edits: list[Edit] = []
    for key in {**catalogue, **current}:
        before = written.get(key, ABSENT) if isinstance(written, dict) else ABSENT
        name = f"{field}.{key}" if field else key
        value, further = merge(before, current.get(key, ABSENT), catalogue.get(key, ABSENT), name)
        edits += further
        if value is not ABSENT:
            merged[key] = value
    return merged, edits


def _merge_tags(written: Any, current: list[str], catalogue: list[str]) -> tuple[list[str], list[Edit]]:
    before = catalogue if written is ABSENT else written
    added = [tag for tag in current if tag not in before and tag not in catalogue]
    merged = [tag for tag in catalogue if tag in current or tag not in before] + added
    return merged, [Edit("tags", merged, catalogue)] if merged != catalogue else []


def changed_fields(before: Any, after: Any, field: str = "") -> list[str]:
    """Return the names of the fields in which two values differ."""
    if before == after:
        return []
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [field]
    names: list[str] = []
    for key in {**before, **after}:
        names += changed_fields(before.get(key, ABSENT), after.get(key, ABSENT), f"{field}.{key}" if field else key)
    return names


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "none"
    if isinstance(value, bool | int | float):
        return str(value)
    tags = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return ", ".join(value) if tags else ""
