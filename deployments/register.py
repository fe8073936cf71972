"""Brings a Prefect server up to date: work pool, deployments, automations (python -m deployments.register).

It may be repeated: what is as it should be stays as it is.
"""

from __future__ import annotations

import subprocess
import sys

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from connectors.base import WaspError
from deployments.automations import declare
from deployments.prefect_file import PLACE
from flows.deploying import POOL, Deployment, deployments


def main() -> int:
    """Make what is missing or out of date; say what was done."""
    try:
        with get_client(sync_client=True) as client:
            _make_pool(client)
            stale = [one for one in deployments() if not _is_current(client, one)]
            if stale:
                _deploy()
            print(f"deployments: {len(stale)} registered, {len(deployments()) - len(stale)} as they were")
            print(f"automations: {', '.join(declare(client))}")
    except WaspError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _make_pool(client: SyncPrefectClient) -> None:
    try:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process", description="Runs on this machine."))
    except ObjectAlreadyExists:
        return


def _is_current(client: SyncPrefectClient, one: Deployment) -> bool:
    """Say whether the server has this deployment: what a person changed in the UI, a schedule say, then stays."""
    try:
        found = client.read_deployment_by_name(f"{one.flow}/{one.name}")
    except ObjectNotFound:
        return False
    return found.version == one.version and found.work_pool_name == POOL


def _deploy() -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(PLACE)]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603  (a command of our own)
    if done.returncode:
        raise WaspError(f"prefect deploy failed:\n{(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
