"""What is asked of the running servers: do they answer, is the worker there, which runs were left behind."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

from deployments.registry import POOL
from deployments.stack.settings import Settings

ENDED = "The stack was ended (make down) while this run was at work. Retry continues from what is finished."
OPEN = ["PENDING", "RUNNING", "CANCELLING"]


def http_answers(address: str, auth: str = "") -> bool:
    """Say whether an address answers with 200."""
    request = urllib.request.Request(address, headers=_authorization(auth))  # noqa: S310  (an address of our own)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def worker_is_online(settings: Settings) -> bool:
    """Say whether the worker has reported to the server."""
    try:
        workers = _ask(settings, f"work_pools/{POOL}/workers/filter", {})
    except (OSError, ValueError):
        return False
    return any(worker["name"] == "local" and worker["status"] == "ONLINE" for worker in workers)


def crash_left_runs(settings: Settings) -> int:
    """Mark runs of the pool crashed that still count as running though no process is left; return how many."""
    wanted = {"flow_runs": {"state": {"type": {"any_": OPEN}}}, "work_pools": {"name": {"any_": [POOL]}}}
    left = _ask(settings, "flow_runs/filter", wanted)
    state = {"type": "CRASHED", "name": "Crashed", "message": ENDED}
    for one in left:
        _ask(settings, f"flow_runs/{one['id']}/set_state", {"state": state, "force": True})
    return len(left)


def _ask(settings: Settings, where: str, what: Any) -> Any:
    address = f"{settings.prefect_url}/api/{where}"
    headers = {"Content-Type": "application/json", **_authorization(settings.auth)}
    request = urllib.request.Request(address, json.dumps(what).encode(), headers)  # noqa: S310  (an address of our own)
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
        return json.load(answer)


def _authorization(auth: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"} if auth else {}
