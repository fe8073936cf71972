"""Updates a Prefect server: work pool, deployments of prefect.yaml, automations.

Run `python -m deployments.register`. It writes only missing deployments and those whose form changed with this version.
Values that a person edited on the server stay until then; schedules always stay.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate, WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from connectors.interfaces.errors import WaspError
from connectors.interfaces.json_values import Json
from connectors.interfaces.redaction import redact
from deployments.automations import declare
from deployments.registry import POOL, PREFECT_FILE, Deployment, deployments

MAX_RUNS = 2
"""Runs at once: a run uses all cores for embeddings and training. Edit the limit of the work pool on the server."""


def main() -> int:
    """Write missing and outdated deployments; print what changed."""
    try:
        with get_client(sync_client=True) as client:
            _create_pool(client)
            for line in register(client):
                print(line)
            print(f"automations: {', '.join(declare(client))}")
    except WaspError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def register(client: SyncPrefectClient) -> Iterator[str]:
    """Write missing and outdated deployments with `prefect deploy`; yield the lines to print."""
    declared = {deployment.name: deployment for deployment in deployments()}
    stored = {name: _read(client, name) for name in declared}
    new = [name for name, deployment in stored.items() if deployment is None]
    present = {name: deployment for name, deployment in stored.items() if deployment}
    # An unchanged version is not written again: values that a person edited on the server stay.
    outdated = [name for name in present if not _is_current(present[name], declared[name])]
    _deploy([*new, *outdated])
    for name in (*new, *outdated):
        _store_schema(client, declared[name])
    # `prefect deploy` activates a deployment that a person has paused.
    for deployment in present.values():
        if deployment.paused:
            client.pause_deployment(deployment.id)
    written = len(new) + len(outdated)
    yield f"deployments: {written} registered, {len(declared) - written} unchanged"
    if new:
        yield f"  new: {', '.join(new)}"
    if outdated:
        yield f"  updated: {', '.join(outdated)}. Values that were edited on the server are replaced, schedules stay"


def _is_current(stored: DeploymentResponse, declared: Deployment) -> bool:
    """Return whether the server has this version, with its own form; false after an interrupted registration."""
    has_form = not declared.has_own_form or stored.parameter_openapi_schema == declared.schema
    return stored.version == declared.version and has_form


def _store_schema(client: SyncPrefectClient, declared: Deployment) -> None:
    """Store the form of a deployment that has its own; `prefect deploy` stores the form of its flow."""
    if declared.has_own_form:
        update = DeploymentUpdate(parameter_openapi_schema=declared.schema)
        client.update_deployment(client.read_deployment_by_name(declared.name).id, update)


def pool_template() -> Json:
    """Return the job template of the work pool: a run chooses neither command nor environment."""
    return {
        # Without `env`: Prefect would merge the variables of a run into it. Without `stream_output`: the output of a
        # run would be a pipe of its worker, and a run whose worker is killed would fail at its next line.
        "job_configuration": {"command": None, "labels": {}, "name": None, "stream_output": False},
        "variables": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def _create_pool(client: SyncPrefectClient) -> None:
    """Create the work pool; update the job template of one that another version created."""
    template = pool_template()
    pool = WorkPoolCreate(
        name=POOL,
        type="process",
        description="Runs on this machine.",
        base_job_template=template,
        concurrency_limit=MAX_RUNS,
    )
    try:
        client.create_work_pool(pool)
    except ObjectAlreadyExists:
        if client.read_work_pool(POOL).type == "process":
            client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=template))


def _read(client: SyncPrefectClient, name: str) -> DeploymentResponse | None:
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


def _deploy(names: Sequence[str]) -> None:
    if not names:
        return
    command = [
        sys.executable,
        "-m",
        "prefect",
        "--no-prompt",
        "deploy",
        "--prefect-file",
        str(PREFECT_FILE),
    ]
    for name in names:
        command += ["--name", name.partition("/")[2]]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603  (a command of our own)
    if done.returncode:
        raise WaspError(
            f"prefect deploy failed. The end of its output:\n{redact((done.stdout + done.stderr)[-1500:])}"
        )


if __name__ == "__main__":
    sys.exit(main())
