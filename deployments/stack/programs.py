"""Settings of the stack, its programs, and their variables; no secrets on command lines."""

import json
import os
import secrets
import sys
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError
from connectors.tracking.address import default_uri
from deployments.registry import POOL
from deployments.stack import postgres
from flows.config.files import check_config
from flows.runtime.state_folder import DEFAULTS, HEARTBEAT

HOST = "127.0.0.1"
KEYS = "kept.json"
"""File with the keys of the servers, which the first start writes."""
ELSEWHERE = (
    "PREFECT_API_",
    "PREFECT_PROFILE",
    "PREFECT_SERVER_API_",
    "MLFLOW_TRACKING_",
    "WASP_AUTH",
)
"""Beginnings of variables in the user's shell that would redirect the stack's programs."""
OWN_DATABASES = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "MLFLOW_BACKEND_STORE_URI")
"""Variables with databases of the user, which replace those of the stack."""
DatabaseKind = Literal["postgresql", "sqlite"]


class Settings(BaseModel):
    """Folders, ports and access of a stack; an alias is the variable that sets the field."""

    model_config = ConfigDict(frozen=True)

    home: Path
    data: Annotated[Path, AfterValidator(lambda path: path.expanduser().resolve())] = Field(
        alias="WASP_DATA"
    )
    prefect_port: int = Field(4200, alias="PREFECT_PORT", ge=1, le=65535)
    mlflow_port: int = Field(5000, alias="MLFLOW_PORT", ge=1, le=65535)
    auth: str = Field("", alias="WASP_AUTH", repr=False, description="user:password, or empty")
    # Not `database`, which stacks of earlier versions stored.
    database_kind: DatabaseKind = Field("sqlite", alias="WASP_DATABASE")
    database_reason: str = ""

    @property
    def folder(self) -> Path:
        """Folder of the stack's files."""
        return self.home / "stack"

    @property
    def prefect(self) -> str:
        """URL of the Prefect server."""
        return f"http://{HOST}:{self.prefect_port}"

    @property
    def mlflow(self) -> str:
        """URL of the MLflow server."""
        return f"http://{HOST}:{self.mlflow_port}"

    @property
    def account(self) -> tuple[str, str]:
        """User name and password."""
        user, _, password = self.auth.partition(":")
        return user, password

    @model_validator(mode="after")
    def _check(self) -> Self:
        user, password = self.account
        if self.prefect_port == self.mlflow_port:
            raise ValueError("PREFECT_PORT and MLFLOW_PORT must be different ports")
        if self.auth and not (user and password):
            raise ValueError("WASP_AUTH: user or password is missing. Write it as user:password")
        if self.auth and len(password) < 12:
            raise ValueError("WASP_AUTH: the password must have at least 12 characters")
        if password == "password1234" or not self.auth.isprintable():  # noqa: S105
            raise ValueError(
                "WASP_AUTH: MLflow refuses this password, or it contains control characters. Choose another password"
            )
        return self


def settings_of(home: Path) -> Settings:
    """Return the settings of the variables that are not empty; ConfigError for an invalid one."""
    requested = {name: value for name, value in os.environ.items() if value}
    values = {"WASP_DATA": Path.cwd(), **requested, "home": home}
    # Checked before the database is chosen: a wrong value is reported first.
    check_config(Settings, values, "make up")
    kind, reason = choose_database(home / "stack", requested.get("WASP_DATABASE", ""))
    chosen = {"WASP_DATABASE": kind, "database_reason": reason}
    return check_config(Settings, values | chosen, "make up")


def choose_database(folder: Path, requested: str) -> tuple[str, str]:
    """Return the database of a stack and what `make up` says of it; `requested`: WASP_DATABASE, or empty.

    PostgreSQL where it is installed. A stack keeps the database of its first start: its flow runs, schedules and blocks
    are there.
    """
    if all(os.environ.get(name) for name in OWN_DATABASES):
        return "sqlite", f"those of {' and '.join(OWN_DATABASES)}"
    missing = postgres.explain_missing(folder)
    one_run = "SQLite, for one run at once"
    if requested == "sqlite":
        return "sqlite", f"{one_run}, as WASP_DATABASE says"
    if (requested == "postgresql" or postgres.has_cluster(folder)) and missing:
        raise ConfigError(
            f"The databases of this stack are in PostgreSQL, but {missing}. Mend this, or run make up WASP_DATABASE="
            "sqlite: flow runs, schedules and blocks in PostgreSQL are then not shown"
        )
    if requested == "postgresql" or postgres.has_cluster(folder):
        return "postgresql", f"PostgreSQL, in {postgres.cluster_path(folder)}"
    if missing:
        return "sqlite", f"{one_run}, because {missing}"
    if (folder / KEYS).exists():
        return "sqlite", (
            f"{one_run}, as before; docs/guides/prefect.md describes the change to PostgreSQL"
        )
    return "postgresql", f"PostgreSQL, in {postgres.cluster_path(folder)}"


def stored_settings(folder: Path) -> Settings:
    """Return the settings of the running stack."""
    return Settings.model_validate_json(
        (folder / "settings.json").read_text(encoding="utf-8"), by_name=True
    )


def programs(settings: Settings) -> dict[str, list[str]]:
    """Return the commands of the servers and the worker, in the order of their start."""
    python = [sys.executable, "-m"]
    prefect = [*python, "prefect", "server", "start"]
    prefect += ["--host", HOST, "--port", str(settings.prefect_port)]
    mlflow = [*python, "mlflow", "server", "--workers", "2"]
    mlflow += ["--host", HOST, "--port", str(settings.mlflow_port)]
    # Clients upload files to MLflow and do not access its folder.
    mlflow += ["--artifacts-destination", f"{settings.home}/mlartifacts"]
    if settings.auth:
        mlflow += ["--app-name", "basic-auth"]
    worker = [*python, "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    worker += ["--name", "local", "--install-policy", "never"]
    servers = {"prefect": prefect, "mlflow": mlflow, "worker": worker}
    if settings.database_kind == "postgresql":
        return {postgres.NAME: postgres.command(settings.folder), **servers}
    return servers


def client_environment(settings: Settings) -> dict[str, str]:
    """Return the variables of clients: the worker, its runs, and a user's shell."""
    environment = {
        "WASP_HOME": str(settings.home),
        "PREFECT_API_URL": f"{settings.prefect}/api",
        "PREFECT_UI_URL": settings.prefect,
        HEARTBEAT: DEFAULTS[HEARTBEAT],
        "MLFLOW_TRACKING_URI": settings.mlflow,
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


def stack_environment(settings: Settings) -> dict[str, str]:
    """Return the variables of every program: the user's, without telemetry and profiles, and those of the stack.

    Without a database of the user, Prefect and MLflow use those of the stack's PostgreSQL, or the SQLite files of runs
    without a server.
    """
    keys = stack_secrets(settings.folder)
    quiet = {
        name: value for name, value in DEFAULTS.items() if not name.startswith("PREFECT_LOGGING")
    }
    databases = {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{settings.home}/prefect/prefect.db",
        "MLFLOW_BACKEND_STORE_URI": default_uri(settings.home),
    }
    if settings.database_kind == "postgresql":
        addresses = (
            postgres.url("asyncpg", "prefect", settings.folder),
            postgres.url("psycopg2", "mlflow", settings.folder),
        )
        databases = dict(zip(OWN_DATABASES, addresses, strict=True))
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(ELSEWHERE)
    }
    # In ascending precedence: the user's own databases replace the files, and the stack's settings the user's.
    environment = databases | inherited | quiet | client_environment(settings)
    environment |= {
        "WASP_DATA": str(settings.data),
        "PREFECT_HOME": f"{settings.home}/prefect",
        "PREFECT_SERVER_ENCRYPTION_KEY": keys["encryption_key"],
        "PREFECT_SERVER_UI_API_URL": f"{settings.prefect}/api",
        "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
        # Flow runs go after 90 days.
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_WORKER_QUERY_SECONDS": "3",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    if settings.auth:
        user, password = settings.account
        environment |= {
            "PREFECT_SERVER_API_AUTH_STRING": settings.auth,
            "MLFLOW_AUTH_CONFIG_PATH": str(_write_mlflow_auth(settings.folder)),
            "MLFLOW_AUTH_ADMIN_USERNAME": user,
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": keys["mlflow_secret"],
        }
    return environment


def _write_mlflow_auth(folder: Path) -> Path:
    """Write MLflow's access file.

    MLflow stores the first password; `make up` therefore removes the accounts before each start of the servers.
    """
    file = folder / "mlflow_auth.ini"
    accounts = folder / "mlflow_accounts.db"
    function = "mlflow.server.auth:authenticate_request_basic_auth"
    lines = [
        "[mlflow]",
        "default_permission = NO_PERMISSIONS",
        f"authorization_function = {function}",
    ]
    write_text_whole(file, "\n".join([*lines, f"database_uri = sqlite:///{accounts}", ""]))
    return file


def stack_secrets(folder: Path) -> dict[str, str]:
    """Return the keys with which the servers encrypt and sign; create them if missing."""
    # Kept over restarts: with other keys, stored Secret blocks and sessions could not be read.
    file = folder / KEYS
    if not file.exists():
        encryption = urlsafe_b64encode(os.urandom(32)).decode()
        created = {"mlflow_secret": secrets.token_urlsafe(24), "encryption_key": encryption}
        write_text_whole(file, json.dumps(created), private=True)
    stored: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return stored
