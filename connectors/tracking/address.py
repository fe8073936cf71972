"""Where the tracking store is: hiding secrets of its address, and asking in a second whether it is there at all."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from connectors.interfaces.errors import ConfigError

_ONE_STEP_SECONDS = 1.0
PROBE_SECONDS = 1.5
"""The longest that `reachable` takes."""
_POSTGRES_HELLO = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"  # SSLRequest: any living server answers it with one byte
_POSTGRES_PORT = 5432


def default_uri(home: Path) -> str:
    """Return the embedded store of a state folder."""
    return f"sqlite:///{home.absolute() / 'mlflow.db'}"


def default_artifact_root(home: Path) -> str:
    """Return where the embedded store of a state folder keeps files."""
    return str(home.absolute() / "mlartifacts")


def check_uri(uri: str) -> str:
    """Return the address if MLflow can keep runs there. Raises ConfigError for a folder."""
    if "://" not in uri and uri != "databricks":
        raise ConfigError(
            f"tracking.uri '{uri}' is not an address. Write sqlite:////absolute/path/mlflow.db for a file of your own, "
            "or http://host:5000 for a server."
        )
    if uri.startswith("file:"):
        raise ConfigError("MLflow no longer keeps runs in a folder. Write sqlite:////absolute/path/mlflow.db instead.")
    return uri


def redact(uri: str) -> str:
    """Return the address without the password and the values of its query."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    query = urlencode([(name, "***") for name, _ in parse_qsl(parts.query)], safe="*")
    shown = f"***@{host}" if "@" in parts.netloc else host
    return urlunsplit(parts._replace(netloc=shown, query=query)) if host or query else uri


def scrub(text: str, uri: str) -> str:
    """Return `text` with every secret of the address replaced, however it is quoted."""
    parts = urlsplit(uri)
    secrets = [parts.netloc.rpartition("@")[0], parts.password or "", *(value for _, value in parse_qsl(parts.query))]
    spellings = {spelling for secret in secrets for spelling in (secret, unquote(secret)) if spelling}
    text = text.replace(uri, redact(uri))
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, "***")
    return text


def page(uri: str, experiment: str, run: str) -> str | None:
    """Return the address of a run's page; None where no server shows it.

    Programs may reach the server by another name than browsers do: MLFLOW_PUBLIC_URL is what a browser types.
    """
    if not uri.startswith("http"):
        return None
    parts = urlsplit(os.environ.get("MLFLOW_PUBLIC_URL") or uri)
    base = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    return f"{base}/#/experiments/{experiment}/runs/{run}"


def reachable(uri: str) -> bool:
    """Say within about a second whether something that can keep runs answers at the address."""
    scheme = urlsplit(uri).scheme
    if scheme in ("http", "https"):
        return _within(lambda: _http_answers(uri))
    if scheme.startswith("postgresql"):
        return _within(lambda: _postgres_answers(uri))
    return True


def _within(ask: Callable[[], bool]) -> bool:
    """Bound the whole question: a name server that does not answer has no timeout of its own."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return bool(answers and answers[0])


def _http_answers(uri: str) -> bool:
    parts = urlsplit(uri)
    address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + "/health", "", ""))
    try:
        urllib.request.urlopen(address, timeout=_ONE_STEP_SECONDS).close()  # noqa: S310 - http and https only, see above
    except urllib.error.HTTPError as error:
        return error.code not in (502, 503, 504)
    except (OSError, http.client.HTTPException):
        return False
    return True


def _postgres_answers(uri: str) -> bool:
    parts = urlsplit(uri)
    place = (parts.hostname or "localhost", parts.port or _POSTGRES_PORT)
    try:
        with socket.create_connection(place, timeout=_ONE_STEP_SECONDS) as connection:
            connection.sendall(_POSTGRES_HELLO)
            return len(connection.recv(1)) == 1
    except OSError:
        return False
