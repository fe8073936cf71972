"""Locations of a run's files for display, in the state folder as it is now: it may have been moved or copied."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from connectors.artifacts.store import Artifacts
from connectors.interfaces.json_values import Json
from connectors.tracking.address import default_uri

SHOWN = ("folder", "report", "table", "audit", "mlflow")
"""Fields of a stored summary with a location."""
STORED = {"all artifacts": "", "folder": "", "audit": "/audit.json"}
"""Fields that name the folder of a run, and what follows it."""


def located(artifacts: Artifacts, run_id: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return stored locations of a run as they are now, by name; other locations are unchanged."""
    former = _former_folder(run_id, values)
    if former is None:
        return dict(values)
    # The command that opens MLflow quotes the address of its database in the state folder.
    old_database = shlex.quote(default_uri(Path(former)))
    database = shlex.quote(default_uri(artifacts.home))
    located = {}
    for name, stored in values.items():
        text = stored.replace(old_database, database)
        inside = text.removeprefix(f"{former}/")
        if inside != text:
            text = artifacts.where(inside)
        located[name] = text
    return located


def _former_folder(run_id: str, values: Mapping[str, str]) -> str | None:
    """Return the state folder that the stored locations name; None if none of them names it."""
    for name, end in STORED.items():
        suffix = f"/runs/{run_id}{end}"
        path = values.get(name, "")
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    return None


def with_locations(artifacts: Artifacts, run_id: str, summary: Json) -> Json:
    """Return the stored summary of a run with the locations of its files as they are now."""
    shown = {name: summary[name] for name in SHOWN if isinstance(summary.get(name), str)}
    return {**summary, **located(artifacts, run_id, shown)}
