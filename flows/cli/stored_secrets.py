"""Search what Prefect and the state folder store for keys and passwords.

The pipeline refuses configurations with secrets. Earlier versions let Prefect store them first, and a server stores
parameters unchecked. The search reports only locations, never a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from connectors.interfaces.errors import ConfigError
from connectors.security.secret_patterns import KEY, find_secrets
from flows.catalog import flow_names

MOST_RUNS = 20_000
"""Maximum number of flow runs that are searched, newest first."""
_PAGE = 200
_MOST_NAMED = 5
_MOST_BYTES = 50_000_000
_SUFFIXES = {".json", ".jsonl", ".txt", ".md", ".html", ".yaml", ".yml", ".log"}
_SKIPPED = {"private", "prefect", "completions", "embeddings", "mlartifacts"}
"""Skipped folders: searched through Prefect, readable only by their owner, or without configurations."""
_IN_TEXT = re.compile(rf"://[^/\s:@\"'<>(),;]*:[^\s\"'<>(),;]*@|{KEY}")


def check_stored_secrets(home: Path) -> str:
    """Return how much was searched.

    ConfigError names the locations of secrets and how to remove them.
    """
    stored = list(_in_prefect())
    findings = [f"{location} ({finding})" for location, parameters in stored for finding in find_secrets(parameters)]
    files = list(_state_files(home))
    findings += [f"{path.relative_to(home)}{location}" for path in files for location in _in_file(path)]
    if not findings:
        return f"none in {len(stored)} flow runs, deployments and schedules of Prefect, and in {len(files)} files"
    more = f" and {len(findings) - _MOST_NAMED} more" if len(findings) > _MOST_NAMED else ""
    raise ConfigError(
        f"a key or password is stored in {'; '.join(findings[:_MOST_NAMED])}{more}. Replace it where it was issued, "
        "because others may have read it. Then delete the flow run (prefect flow-run delete ID), correct the "
        "deployment's parameters, and remove the value from the file."
    )


def _in_prefect() -> Iterator[tuple[str, Any]]:
    """Yield a readable location and the parameters of each flow run, deployment and schedule.

    Without a server, Prefect's client opens the local database; nothing is searched if there is none.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_DATABASE_CONNECTION_URL

    scheme, _, path = str(PREFECT_SERVER_DATABASE_CONNECTION_URL.value()).partition(":///")
    if not PREFECT_API_URL.value() and scheme.startswith("sqlite") and not Path(path).is_file():
        return
    ours = {"flows": {"name": {"any_": list(flow_names())}}}
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise ConfigError(f"{client.api_url}: no response ({type(problem).__name__}), not searched. Start it.")

        def pages(path: Literal["/flow_runs/filter", "/deployments/filter"], sort: str) -> Iterator[Mapping[str, Any]]:
            for offset in range(0, MOST_RUNS, _PAGE):
                body = ours | {"sort": sort, "limit": _PAGE, "offset": offset}
                entries: list[dict[str, Any]] = client.request("POST", path, json=body).raise_for_status().json()
                yield from entries
                if len(entries) < _PAGE:
                    return

        for run in pages("/flow_runs/filter", "START_TIME_DESC"):
            yield f"flow run {run['id']}", run["parameters"]
        for deployment in pages("/deployments/filter", "NAME_ASC"):
            name = f"deployment '{deployment['name']}'"
            yield name, deployment["parameters"]
            for schedule in deployment["schedules"]:
                yield f"schedule of {name}", schedule["parameters"]


def _state_files(home: Path) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        is_skipped = path.relative_to(home).parts[0] in _SKIPPED
        if not is_skipped and path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _MOST_BYTES:
            yield path


def _in_file(path: Path) -> Iterator[str]:
    """Yield the locations of secrets in a file: the field of a run's configuration, else the line.

    Other files have fields such as `key` that are no secrets.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.name == "manifest.json":
        try:
            yield from (f" ({finding})" for finding in find_secrets({"config": json.loads(text)["config"]}))
            return
        except (ValueError, KeyError, TypeError):
            pass  # damaged: searched as text
    for number, line in enumerate(text.splitlines(), start=1):
        if _IN_TEXT.search(line):
            yield f", line {number}"
