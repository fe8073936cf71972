"""Locations of a run's files for display, in the state folder as it is now: it may have been moved or copied."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connectors.artifacts.store import Artifacts
from connectors.interfaces.json_values import Json
from connectors.tracking.address import default_uri

SHOWN = ("folder", "report", "table", "audit", "mlflow")
"""Fields of a stored summary with a location."""
STORED = {"all artifacts": "", "folder": "", "audit": "/audit.json"}
"""Fields that name the folder of a run, and what follows it."""


def located(artifacts: Artifacts, run_id: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return stored locations of a run as they are now, by name; other locations are unchanged."""
    ends = [
        (values[name], f"/runs/{run_id}{end}") for name, end in STORED.items() if name in values
    ]
    former = next((path.removesuffix(end) for path, end in ends if path.endswith(end)), None)
    if former is None:
        return dict(values)
    database = shlex.quote(default_uri(artifacts.home))
    texts = {
        name: text.replace(shlex.quote(default_uri(Path(former))), database)
        for name, text in values.items()
    }
    inside = {name: text.removeprefix(f"{former}/") for name, text in texts.items()}
    return {
        name: artifacts.where(inside[name]) if inside[name] != text else text
        for name, text in texts.items()
    }


def with_locations(artifacts: Artifacts, run_id: str, summary: Mapping[str, Any]) -> Json:
    """Return the stored summary of a run with the locations of its files as they are now."""
    shown = {name: summary[name] for name in SHOWN if isinstance(summary.get(name), str)}
    return {**summary, **located(artifacts, run_id, shown)}
