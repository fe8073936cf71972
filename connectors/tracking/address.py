"""Address of the tracking store: defaults, redaction, fast reachability check."""

import os
import socket
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from connectors.interfaces.errors import ConfigError

PROBE_SECONDS = 1.5
"""Maximum duration of `reachable`: half of it for the connection, half for the first byte."""
AS_TRAINING = "workflowType=machine_learning"
"""Part of a link that opens MLflow's pages of model training; without it they are those of chats."""
VIEW = "wasp"
"""Key of the view of an experiment's runs with their numbers."""
_PORTS = {"http": 80, "https": 443, "postgresql": 5432}
_HELLOS = {
    "http": b"HEAD /health HTTP/1.0\r\n\r\n",
    "postgresql": b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
}
"""Bytes to which a running server replies, for PostgreSQL an SSLRequest; https is not probed further."""


def default_uri(home: Path) -> str:
    """Return the embedded store of a state folder."""
    return f"sqlite:///{home.absolute() / 'mlflow.db'}"


def default_artifact_root(home: Path) -> str:
    """Return the artifact folder of a state folder's embedded store."""
    return str(home.absolute() / "mlartifacts")


def check_uri(uri: str) -> str:
    """Return the address if MLflow can store runs there; ConfigError for a folder."""
    if "://" not in uri and uri != "databricks":
        raise ConfigError(
            f"tracking.uri '{uri}' is not an address. Use sqlite:////absolute/path/mlflow.db for a local file, "
            "or http://host:5000 for a server."
        )
    if uri.startswith("file:"):
        raise ConfigError(
            "tracking.uri: MLflow stores no runs in folders. Use sqlite:////absolute/path/mlflow.db."
        )
    return uri


def redact(uri: str) -> str:
    """Return the address without its password and query values."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    query = urlencode([(name, "***") for name, _ in parse_qsl(parts.query)], safe="*")
    if not host and not query:
        return uri
    if "@" in parts.netloc:
        host = f"***@{host}"
    return urlunsplit(parts._replace(netloc=host, query=query))


def scrub(text: str, uri: str) -> str:
    """Return `text` with every secret of the address replaced, quoted or not."""
    parts = urlsplit(uri)
    secrets = [
        parts.netloc.rpartition("@")[0],
        parts.password or "",
        *(value for _, value in parse_qsl(parts.query)),
    ]
    spellings = {
        spelling for secret in secrets for spelling in (secret, unquote(secret)) if spelling
    }
    text = text.replace(uri, redact(uri))
    # Longest first: a secret that contains another one would otherwise be replaced only in part.
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, "***")
    return text


def page(uri: str, experiment: str, run: str) -> str | None:
    """Return the address of a run's page, None if no server shows it.

    Programs can use another name for the server than browsers: MLFLOW_PUBLIC_URL is the browser's address.
    """
    if not uri.startswith("http"):
        return None
    parts = urlsplit(os.environ.get("MLFLOW_PUBLIC_URL") or uri)
    base = urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
    )
    return f"{base}/#/experiments/{experiment}/runs/{run}?{AS_TRAINING}"


def table_path(experiment: str) -> str:
    """Return the address, on its server, of the table of an experiment's runs with their numbers."""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&{AS_TRAINING}"


def table_page(run_page: str) -> str:
    """Return the address of the table of runs that contains the run of a page; see `page`."""
    base, _, run = run_page.partition("#/experiments/")
    return base + table_path(run.partition("/")[0])


def reachable(uri: str) -> bool:
    """Return True if a server responds at the address within `PROBE_SECONDS`; a local file always does."""
    parts = urlsplit(uri)
    scheme = parts.scheme.partition("+")[0]
    if scheme not in _PORTS:
        return True
    try:
        address = (parts.hostname or "localhost", parts.port or _PORTS[scheme])
        # A connection alone proves nothing: a proxy accepts it without a server behind it.
        with socket.create_connection(address, timeout=PROBE_SECONDS / 2) as connection:
            connection.sendall(_HELLOS.get(scheme, b""))
            return scheme not in _HELLOS or len(connection.recv(1)) == 1
    except OSError:
        return False
