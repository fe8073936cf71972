"""Merges edits of deployments in the UI with updates from the catalogue.

Registration stores a record of the values it wrote in the deployment. A value that differs from its record was edited
and is preserved; all others follow the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from prefect.client.schemas.responses import DeploymentResponse

from deployments.registry import CONCURRENCY, ENVIRONMENT, POOL, Deployment

Values = dict[str, Any]
RECORD = "WrittenByRegistration"
"""Name of the record in the schema's definitions, which people cannot edit."""
ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Edit:
    """A field that a person changed, with its current and catalogue values."""

    field: str
    value: Any
    catalogue: Any

    def __str__(self) -> str:
        """Return the field with numbers and tags.

        Other text is omitted, because it may reveal the location of private rows.
        """
        current, catalogue = _format(self.value), _format(self.catalogue)
        return f"{self.field} = {current} (catalogue: {catalogue})" if current and catalogue else self.field


def catalogue_values(deployment: Deployment) -> Values:
    """Return the catalogue values that a person may edit on the server."""
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


def server_values(stored: DeploymentResponse) -> Values:
    """Return the same values from the server; `wasp serve` sets no work pool."""
    limit, options = stored.global_concurrency_limit, stored.concurrency_options
    schedules = {
        s.slug: {name: getattr(s.schedule, name, None) for name in ("cron", "timezone")} for s in stored.schedules
    }
    return {
        "parameters": stored.parameters,
        "description": stored.description,
        "tags": stored.tags,
        "job_variables": stored.job_variables,
        "concurrency_limit": limit.limit if limit else None,
        "collision_strategy": options.collision_strategy.value if options else None,
        "work_pool_name": stored.work_pool_name or ABSENT,
        "schedules": {slug: schedule for slug, schedule in schedules.items() if slug is not None},
    }


def recorded_values(stored: DeploymentResponse, deployment: Deployment) -> Values:
    """Return the values that registration wrote last.

    Without a record (an earlier version, `prefect deploy`, `wasp serve`) the version decides, which is a digest of the
    values. If it matches, no value was edited; if not, every value that differs from the catalogue counts as edited.
    """
    record = (stored.parameter_openapi_schema or {}).get("definitions", {}).get(RECORD)
    if record is not None:
        values: Values = record["default"]
        return values
    same = replace(
        deployment,
        entrypoint=stored.entrypoint or "",
        description=stored.description or "",
        tags=tuple(stored.tags),
        parameters=stored.parameters,
    )
    return server_values(stored) if same.version == stored.version else {}


def merge(written: Any, current: Any, catalogue: Any, field: str = "") -> tuple[Any, list[Edit]]:
    """Return the value after an update, and the preserved edits.

    A value follows the catalogue unless it differs from the value that registration wrote. Mappings are merged by key,
    tags individually; other lists are one value.
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
    """Return the names of the fields that differ between two values."""
    if before == after:
        return []
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [field]
    names: list[str] = []
    for key in {**before, **after}:
        names += changed_fields(before.get(key, ABSENT), after.get(key, ABSENT), f"{field}.{key}" if field else key)
    return names


def _format(value: Any) -> str:
    if value is ABSENT:
        return "none"
    if isinstance(value, bool | int | float):
        return str(value)
    tags = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return ", ".join(value) if tags else ""
