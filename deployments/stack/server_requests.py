"""Requests to the servers: health checks, worker state, and abandoned runs."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

from deployments.registry import POOL
from deployments.stack.settings import Settings

ENDED = "The stack was stopped (make down) during this run. Retry reuses finished steps."
OPEN = ["PENDING", "RUNNING", "CANCELLING"]


def is_healthy(address: str, auth: str = "") -> bool:
    """Return True if an address responds with status 200."""
    request = urllib.request.Request(address, headers=_authorization(auth))  # noqa: S310  (a fixed address)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


def worker_is_online(settings: Settings) -> bool:
    """Return True if the worker has reported to the server."""
    try:
        workers = _post(settings, f"work_pools/{POOL}/workers/filter", {})
    except (OSError, ValueError):
        return False
    return any(worker["name"] == "local" and worker["status"] == "ONLINE" for worker in workers)


def crash_left_runs(settings: Settings) -> int:
    """Mark active runs of the pool as crashed, and return their number."""
    query = {"flow_runs": {"state": {"type": {"any_": OPEN}}}, "work_pools": {"name": {"any_": [POOL]}}}
    runs = _post(settings, "flow_runs/filter", query)
    state = {"type": "CRASHED", "name": "Crashed", "message": ENDED}
    for run in runs:
        _post(settings, f"flow_runs/{run['id']}/set_state", {"state": state, "force": True})
    return len(runs)


def _post(settings: Settings, path: str, body: Any) -> Any:
    address = f"{settings.prefect_url}/api/{path}"
    headers = {"Content-Type": "application/json", **_authorization(settings.auth)}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)  # noqa: S310  (a fixed address)
    with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310
        return json.load(response)


def _authorization(auth: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"} if auth else {}
