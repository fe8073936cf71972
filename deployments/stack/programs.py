"""Commands of the stack's programs, and their common variables; no secrets on command lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from connectors.artifacts.atomic_files import write_text_whole
from connectors.tracking.address import default_uri
from deployments.registry import POOL
from deployments.stack.settings import Settings
from flows.runtime.state_folder import DEFAULTS, HEARTBEAT

ELSEWHERE = ("PREFECT_API_", "PREFECT_PROFILE", "PREFECT_SERVER_API_", "MLFLOW_TRACKING_", "WASP_AUTH", "WASP_BIND")
"""Beginnings of variables in the user's shell that would redirect the stack's programs."""


def programs(settings: Settings) -> dict[str, list[str]]:
    """Return the commands of the servers and the worker, in the order of their start."""
    python, bind = [sys.executable, "-m"], settings.bind
    prefect = [*python, "prefect", "server", "start", "--host", bind, "--port", str(settings.prefect_port)]
    # Clients upload files to MLflow and do not access its folder.
    mlflow = [*python, "mlflow", "server", "--workers", "2", "--host", bind, "--port", str(settings.mlflow_port)]
    mlflow += ["--artifacts-destination", f"{settings.home}/mlartifacts"]
    mlflow += ["--app-name", "basic-auth"] if settings.auth else []
    worker = [*python, "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    worker += ["--name", "local", "--install-policy", "never"]
    return {"prefect": prefect, "mlflow": mlflow, "worker": worker}


def client_environment(settings: Settings) -> dict[str, str]:
    """Return the variables of clients: the worker, its runs, and a user's shell."""
    environment = {
        "WASP_HOME": str(settings.home),
        "PREFECT_API_URL": f"{settings.url('prefect')}/api",
        "PREFECT_UI_URL": settings.url("prefect", shown=True),
        HEARTBEAT: DEFAULTS[HEARTBEAT],
        "MLFLOW_TRACKING_URI": settings.url("mlflow"),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    }
    if ledger := os.environ.get("WASP_LEDGER_URL"):
        environment["WASP_LEDGER_URL"] = ledger
    if settings.auth:
        user, password = settings.account
        environment["PREFECT_API_AUTH_STRING"] = settings.auth
        environment |= {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
    return environment


def stack_environment(settings: Settings, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of every program: the user's, without telemetry and profiles, and those of the stack.

    Without a database of the user, Prefect and MLflow use the SQLite files of runs without a server.
    """
    quiet = {name: value for name, value in DEFAULTS.items() if not name.startswith("PREFECT_LOGGING")}
    databases = {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{settings.home}/prefect/prefect.db",
        "MLFLOW_BACKEND_STORE_URI": default_uri(settings.home),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ELSEWHERE)}
    environment = databases | inherited | quiet | client_environment(settings)
    environment |= {
        "WASP_DATA": str(settings.data),
        "PREFECT_HOME": f"{settings.home}/prefect",
        "PREFECT_SERVER_ENCRYPTION_KEY": secrets["encryption_key"],
        "PREFECT_SERVER_UI_API_URL": f"{settings.url('prefect', shown=True)}/api",
        "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",  # flow runs go after 90 days
        "PREFECT_WORKER_QUERY_SECONDS": "3",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    if settings.url("mlflow", shown=True) != settings.url("mlflow"):
        hosts = [host for name in (settings.shown_as, "localhost", "127.0.0.1") for host in (name, f"{name}:*")]
        environment.setdefault("MLFLOW_SERVER_ALLOWED_HOSTS", ",".join(hosts))
        environment.setdefault("MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", settings.url("mlflow", shown=True))
    if settings.auth:
        environment |= {"PREFECT_SERVER_API_AUTH_STRING": settings.auth}
        environment |= _mlflow_auth(settings, secrets["mlflow_secret"])
    return environment


def _mlflow_auth(settings: Settings, secret: str) -> dict[str, str]:
    """Write MLflow's access file and return its variables.

    MLflow stores the first password; `make up` therefore removes the accounts before each start of the servers.
    """
    file, accounts = settings.folder / "mlflow_auth.ini", settings.folder / "mlflow_accounts.db"
    function = "mlflow.server.auth:authenticate_request_basic_auth"
    lines = ["[mlflow]", "default_permission = NO_PERMISSIONS", f"authorization_function = {function}"]
    write_text_whole(file, "\n".join([*lines, f"database_uri = sqlite:///{accounts}", ""]))
    user, password = settings.account
    return {
        "MLFLOW_AUTH_CONFIG_PATH": str(file),
        "MLFLOW_AUTH_ADMIN_USERNAME": user,
        "MLFLOW_AUTH_ADMIN_PASSWORD": password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secret,
    }
