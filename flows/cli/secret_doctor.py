"""Search Prefect's database and the state folder for stored keys and passwords.

The pipeline refuses configurations with secrets. Earlier versions let Prefect store them first, and a server stores
parameters unchecked. The search reports only locations, never a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
_ADDRESS = r"://[^/\s:@\"'<>(),;]*:[^\s\"'<>(),;]*@"
_IN_TEXT = re.compile(rf"{_ADDRESS}|{KEY}")
_RUNS = """SELECT flow_run.id AS id, flow_run.parameters AS parameters
FROM flow_run JOIN flow ON flow.id = flow_run.flow_id WHERE flow.name IN ({names})
ORDER BY flow_run.created DESC LIMIT {most}"""
_DEPLOYMENTS = """SELECT flow.name AS flow, deployment.name AS name, deployment.parameters AS parameters
FROM deployment JOIN flow ON flow.id = deployment.flow_id WHERE flow.name IN ({names})"""
_SCHEDULES = """SELECT flow.name AS flow, deployment.name AS name, deployment_schedule.parameters AS parameters
FROM deployment_schedule JOIN deployment ON deployment.id = deployment_schedule.deployment_id
JOIN flow ON flow.id = deployment.flow_id WHERE flow.name IN ({names})"""

Stored = tuple[str, Any]
"""Readable location of stored parameters, and the parameters."""


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


def _names() -> list[str]:
    return list(flow_names())


def _in_prefect() -> Iterator[Stored]:
    """Yield the parameters that Prefect stores, on the server or else locally."""
    from prefect.settings import PREFECT_API_URL, get_current_settings

    if PREFECT_API_URL.value():
        yield from _on_server()
        return
    address = get_current_settings().server.database.connection_url
    if address is None:
        return
    yield from _in_database(address.get_secret_value())


def _on_server() -> Iterator[Stored]:
    from prefect.client.orchestration import get_client

    ours = {"flows": {"name": {"any_": _names()}}}
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


def _in_database(address: str) -> Iterator[Stored]:
    """Yield parameters from Prefect's database, opened read-only.

    Yield nothing if it does not exist.
    """
    import sqlalchemy

    from connectors.rows.databases import read_sql

    url = sqlalchemy.make_url(address)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        return
    driver = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg2"}[url.get_backend_name()]
    plain = url.set(drivername=driver).render_as_string(hide_password=False)
    shown = url.render_as_string()
    names = ", ".join(f"'{name}'" for name in _names())
    rows = _rows(read_sql(plain, _RUNS.format(names=names, most=MOST_RUNS), shown))
    yield from ((f"flow run {row['id']}", _json(row["parameters"])) for row in rows)
    for query, what in ((_DEPLOYMENTS, "deployment"), (_SCHEDULES, "schedule of deployment")):
        rows = _rows(read_sql(plain, query.format(names=names), shown))
        yield from ((f"{what} '{row['flow']}/{row['name']}'", _json(row["parameters"])) for row in rows)


def _rows(columns: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _state_files(home: Path) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        is_skipped = path.relative_to(home).parts[0] in _SKIPPED
        if not is_skipped and path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _MOST_BYTES:
            yield path


def _in_file(path: Path) -> Iterator[str]:
    """Yield the locations of secrets in a file: JSON field, else line."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in (".json", ".jsonl"):
        try:
            values = [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
        except ValueError:
            pass  # damaged: searched as text
        else:
            yield from (f" ({finding})" for value in values for finding in find_secrets(value))
            return
    for number, line in enumerate(text.splitlines(), start=1):
        if _IN_TEXT.search(line):
            yield f", line {number}"
