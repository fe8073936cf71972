"""infra/helm: manifests that Kubernetes accepts, Secrets that exist, nothing in the open."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.infra_files import INFRA, SECRETS, plain_environment

HELM = INFRA / "helm"
MANIFESTS = ("wasp", "deployments", "postgres", "team", "dask")
CHARTS = ("prefect-server", "prefect-worker", "mlflow")
POOLS = {"cpu": HELM / "work-pool-cpu.json", "gpu": HELM / "work-pool-gpu.json"}
OLDEST = "1.29"
NOWHERE = "http://127.0.0.1:9/api"
RENDER = """
import asyncio, json, sys, uuid
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration as Configuration

async def render(template, values):
    return await Configuration.from_template_and_values(template, values, client=get_client())

job = asyncio.run(render(json.load(open(sys.argv[1])), json.loads(sys.argv[2])))
job.prepare_for_flow_run(FlowRun(flow_id=uuid.uuid4(), name="lazy cat"))
print(json.dumps(job.job_manifest))
"""


def values(chart: str) -> dict[str, Any]:
    return yaml.safe_load((HELM / f"{chart}.yaml").read_text())


def manifests(*names: str) -> list[dict[str, Any]]:
    return [
        item for name in names for item in yaml.safe_load_all((HELM / f"{name}.yaml").read_text())
    ]


def accepted(manifest: dict[str, Any]) -> None:
    """Refuse what the API of the oldest and the newest Kubernetes would refuse."""
    for version in (OLDEST, ".".join(kubernetes_validate.latest_version().split(".")[:2])):
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize(
    "manifest",
    manifests(*MANIFESTS),
    ids=lambda item: f"{item['kind']}-{item['metadata'].get('name')}",
)
def test_kubernetes_accepts_the_manifests(manifest):
    accepted(manifest)


# --- Secrets
@pytest.fixture(scope="module")
def secrets(tmp_path_factory) -> dict[str, dict[str, str]]:
    """Return the Secrets that secrets.sh makes of an env file."""
    folder = tmp_path_factory.mktemp("infra")
    (folder / "helm").mkdir()
    (folder / "helm" / "secrets.sh").write_bytes((HELM / "secrets.sh").read_bytes())
    settings = SECRETS | {"WASP_AUTH": "nurse:it's a: #secret \\ word"}
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    done = subprocess.run(
        ["sh", str(folder / "helm" / "secrets.sh")], capture_output=True, text=True, check=True
    )
    result = list(yaml.safe_load_all(done.stdout))
    for item in result:
        accepted(item)
    return {item["metadata"]["name"]: item["stringData"] for item in result}


def test_secrets_are_made_of_the_env_file_whatever_characters_they_have(secrets):
    assert secrets["wasp-auth"] == {"auth-string": "nurse:it's a: #secret \\ word"}
    assert secrets["wasp-mlflow"]["username"] == "nurse"
    assert secrets["wasp-mlflow"]["password"] == "it's a: #secret \\ word"
    assert (
        secrets["wasp-worker"]["WASP_LEDGER_URL"]
        == "postgresql+psycopg2://ledger:pg3@wasp-postgres:5432/ledger"
    )
    assert (
        secrets["wasp-prefect"]["connection-string"]
        == "postgresql+asyncpg://prefect:pg1@wasp-postgres:5432/prefect"
    )


def test_every_secret_that_is_named_is_made_with_that_key(secrets):
    everything = [
        *(values(chart) for chart in CHARTS),
        *manifests(*MANIFESTS),
        *map(template, POOLS),
    ]
    named = {pair for item in everything for pair in key_references(item)}
    assert len(named) >= 6
    assert [pair for pair in named if pair[1] not in secrets.get(pair[0], {})] == []
    whole = {
        name
        for item in everything
        for name in re.findall(r"'secretRef': {'name': '([\w-]+)'}", str(item))
    }
    assert whole == {"wasp-worker", "wasp-postgres"} <= set(secrets)
    charts = [
        values("prefect-server")["server"]["basicAuth"],
        values("prefect-worker")["worker"]["selfHostedServerApiConfig"]["basicAuth"],
    ]
    assert {chart["existingSecret"] for chart in charts} == {"wasp-auth"}
    assert "auth-string" in secrets["wasp-auth"]  # the key that Prefect's charts look for
    assert "connection-string" in secrets[values("prefect-server")["secret"]["name"]]


def key_references(value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        mine = [(value["name"], value["key"])] if set(value) == {"name", "key"} else []
        return mine + [pair for item in value.values() for pair in key_references(item)]
    return (
        [pair for item in value for pair in key_references(item)] if isinstance(value, list) else []
    )


def test_no_file_holds_a_password():
    text = "".join(path.read_text() for path in [*HELM.glob("*.yaml"), *HELM.glob("*.json")])
    assert not re.search(r"://\w+:[^@\s]+@", text)
    assert not re.search(r"(?i)password: *[\"']?\w", text)


def test_no_pod_of_ours_gets_variables_of_services():
    # Of the Service wasp-postgres Kubernetes makes WASP_POSTGRES_PORT and others, which a run reports as misspelt.
    ours = [
        item["spec"]["template"]["spec"] for item in manifests("deployments", "dask") if pods(item)
    ]
    jobs = [template(kind)["job_configuration"]["job_manifest"] for kind in POOLS]
    ours += [job["spec"]["template"]["spec"] for job in jobs]
    assert len(ours) == 5
    assert [pod.get("enableServiceLinks") for pod in ours] == [False] * 5


def pods(item: dict[str, Any]) -> bool:
    return item["kind"] in {"Job", "Deployment"}


def test_workers_of_the_cluster_have_the_settings_and_the_limits_of_measured_runs():
    [worker] = [
        item for item in manifests("dask") if item["metadata"]["name"] == "wasp-dask-worker"
    ]
    [container] = worker["spec"]["template"]["spec"]["containers"]
    run = template("cpu")["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    assert container["envFrom"] == run["containers"][0]["envFrom"]
    assert container["image"] == run["containers"][0]["image"]
    [service] = [item for item in manifests("dask") if item["kind"] == "Service"]
    port = service["spec"]["ports"][0]["port"]
    assert f"tcp://{service['metadata']['name']}:{port}" in container["args"]


# --- the work pools
def template(kind: str) -> dict[str, Any]:
    return json.loads(POOLS[kind].read_text())


def rendered(kind: str, home: Path, **chosen: Any) -> dict[str, Any]:
    """Return the job that the worker makes of the template, with the variables of the chart; it calls no server."""
    named = {
        item["name"]: item["value"] for item in values("prefect-worker")["worker"]["extraEnvVars"]
    }
    environment = plain_environment(PREFECT_API_URL=NOWHERE, PREFECT_HOME=str(home), **named)
    command = [sys.executable, "-c", RENDER, str(POOLS[kind]), json.dumps(chosen)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("kind", sorted(POOLS))
def test_kubernetes_accepts_the_job_that_prefect_makes_of_the_template(kind, tmp_path):
    job = rendered(kind, tmp_path, env={"EXTRA": "1"}, command="sh -c id", image="other")
    pod = job["spec"]["template"]["spec"]
    # Prefect insists on these two in the pod, where Kubernetes ignores them.
    assert (pod.pop("parallelism"), pod.pop("completions")) == (1, 1)
    accepted(job)
    [container] = pod["containers"]
    assert container["args"] == ["prefect", "flow-run", "execute"]
    assert "EXTRA" not in {entry["name"] for entry in container["env"]}, (
        "a run chooses no environment"
    )
    assert container["image"].endswith(f"wasp-synth:0.2.0-{kind}")
    assert container["resources"]["limits"].get("nvidia.com/gpu") == (1 if kind == "gpu" else None)
    assert pod["securityContext"]["runAsUser"] == 1001
    assert pod["automountServiceAccountToken"] is False
