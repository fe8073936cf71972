"""Commands and variables of the programs; no secrets on command lines."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from connectors.artifacts.atomic_files import write_text_whole
from deployments.registry import POOL
from deployments.stack.postgres import url
from deployments.stack.settings import Settings
from deployments.stack.supervisor import Service
from flows.engine.server import serve_others
from flows.runtime.state_folder import DEFAULTS

OWN = ("PREFECT_API_", "PREFECT_PROFILE", "PREFECT_SERVER_API_", "PREFECT_SERVER_DATABASE_", "MLFLOW_TRACKING_",
       "MLFLOW_BACKEND_", "WASP_AUTH", "WASP_BIND")  # fmt: skip
"""Beginnings of variables in the user's shell that would redirect the stack's programs."""


def client_environment(settings: Settings, ledger: str) -> dict[str, str]:
    """Return the variables of clients: the worker, its runs, and a user's shell."""
    environment = {
        "WASP_HOME": settings.home,
        "PREFECT_API_URL": f"{settings.url('prefect')}/api",
        "PREFECT_UI_URL": settings.url("prefect", shown=True),
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": DEFAULTS["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"],
        "MLFLOW_TRACKING_URI": settings.url("mlflow"),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    }
    environment |= {"WASP_LEDGER_URL": ledger} if ledger else {}
    if settings.auth:
        environment |= {"PREFECT_API_AUTH_STRING": settings.auth}
        names = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
        environment |= dict(zip(names, settings.account, strict=True))
    return environment


def base_environment(settings: Settings) -> dict[str, str]:
    """Return the user's environment without telemetry and profiles."""
    quiet = {name: value for name, value in DEFAULTS.items() if not name.startswith("PREFECT_LOGGING")}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    return {**inherited, **quiet, "PREFECT_HOME": f"{settings.home}/prefect", "WASP_HOME": settings.home}


def prefect_service(settings: Settings, secrets: Mapping[str, str]) -> Service:
    """Return the Prefect server: API, UI, scheduler and automations in one process."""
    database = f"sqlite+aiosqlite:///{settings.home}/prefect/prefect.db"
    if settings.database == "postgresql":
        database = url("asyncpg", "prefect", secrets["prefect"], settings.postgres_port)
    environment = {
        "PREFECT_API_URL": f"{settings.url('prefect')}/api",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        "PREFECT_SERVER_ENCRYPTION_KEY": secrets["encryption_key"],
        "PREFECT_SERVER_UI_API_URL": f"{settings.url('prefect', shown=True)}/api",
        "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",  # flow runs go after 90 days
    }
    if settings.auth:
        environment |= {"PREFECT_SERVER_API_AUTH_STRING": settings.auth, "PREFECT_API_AUTH_STRING": settings.auth}
    command = [sys.executable, "-m", "prefect", "server", "start"]
    command += ["--host", settings.bind, "--port", str(settings.prefect_port)]
    return Service("prefect", command, environment, settings.prefect_port, "PREFECT_PORT", settings.bind)


def mlflow_service(settings: Settings, secrets: Mapping[str, str]) -> Service:
    """Return the MLflow server; clients upload files and do not access its folder.

    Without PostgreSQL it uses the database of runs without a server.
    """
    database = f"sqlite:///{settings.home}/mlflow.db"
    if settings.database == "postgresql":
        database = url("psycopg2", "mlflow", secrets["mlflow"], settings.postgres_port)
    environment = {"MLFLOW_BACKEND_STORE_URI": database, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    if settings.shown_as != settings.host:
        hosts = [host for name in (settings.shown_as, "localhost", "127.0.0.1") for host in (name, f"{name}:*")]
        allowed = {"HOSTS": ",".join(hosts), "ORIGINS": settings.url("mlflow", shown=True)}
        names = {"HOSTS": "MLFLOW_SERVER_ALLOWED_HOSTS", "ORIGINS": "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"}
        environment |= {names[key]: os.environ.get(names[key], value) for key, value in allowed.items()}
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "2"]
    command += ["--host", settings.bind, "--port", str(settings.mlflow_port)]
    command += ["--artifacts-destination", f"{settings.home}/mlartifacts"]
    if settings.auth:
        command += ["--app-name", "basic-auth"]
        environment |= _mlflow_auth(settings, secrets["mlflow_secret"])
    return Service("mlflow", command, environment, settings.mlflow_port, "MLFLOW_PORT", settings.bind)


def _mlflow_auth(settings: Settings, secret: str) -> dict[str, str]:
    """Write MLflow's access file and return its variables.

    MLflow stores the first password, therefore each WASP_AUTH has its own accounts database.
    """
    name = hashlib.sha256(f"{secret} {settings.auth}".encode()).hexdigest()[:12]
    file = settings.folder / "mlflow_auth.ini"
    function = "mlflow.server.auth:authenticate_request_basic_auth"
    lines = ["[mlflow]", "default_permission = NO_PERMISSIONS", f"authorization_function = {function}"]
    lines += [f"database_uri = sqlite:///{settings.folder / f'mlflow_accounts_{name}.db'}"]
    write_text_whole(file, "\n".join(lines) + "\n")
    user, password = settings.account
    return {
        "MLFLOW_AUTH_CONFIG_PATH": str(file),
        "MLFLOW_AUTH_ADMIN_USERNAME": user,
        "MLFLOW_AUTH_ADMIN_PASSWORD": password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secret,
    }


def worker_service(settings: Settings, ledger: str) -> Service:
    """Return the worker, which starts each run in a new process."""
    if settings.auth:
        serve_others(Path(settings.home))
    environment = client_environment(settings, ledger)
    environment |= {"WASP_DATA": settings.data, "PREFECT_WORKER_QUERY_SECONDS": "3"}
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    return Service("worker", [*command, "--name", "local", "--install-policy", "never"], environment)
