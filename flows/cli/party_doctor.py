"""What `wasp doctor` looks at where several parties hold the rows: at the coordinator's machine, and at a party's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from connectors.interfaces.errors import ConfigError
from flows.config.paths import place
from flows.engine.federation import Federation, federation_of
from flows.runtime.stores import open_exchange

if TYPE_CHECKING:
    from connectors.artifacts.shared_store import RemoteFiles
    from flows.config.base import AnyConfig
    from flows.federation.party import Party

Checks = dict[str, Callable[[Path], str]]

SERVER = "set PREFECT_API_URL to the Prefect server that the parties reach"
START = "start it on its machine: wasp party --config party.yaml"
MOST_NAMES = 5


# --- the coordinator
def coordinator_checks(config: AnyConfig) -> Checks:
    """Return what a run of this configuration needs beside its models; nothing where no parties are named."""
    choice = config.parties
    if choice is None:
        return {}
    exchange = place(choice.exchange, config.data_root)
    return {
        "parties": lambda _: _named(_federation(config)),
        "exchange": lambda _: _exchange(open_exchange(exchange)),
        "party workers": lambda _: _workers(_federation(config)),
    }


def _federation(config: AnyConfig) -> Federation:
    found = federation_of(config)
    assert found is not None
    return found


def _named(federation: Federation) -> str:
    parties = federation.parties
    return (
        f"{parties.number} in the registry, at least {parties.minimum} in each sum, the promise holds with up to "
        f"{parties.colluding} colluding"
    )


def _exchange(files: RemoteFiles) -> str:
    """Write, list, read and remove a file; ArtifactError when the exchange does not answer."""
    if files.is_folder and not Path(files.address).is_dir():
        raise ConfigError(f"{files.address}: no such folder; make it, or mount the one that all parties share")
    name, content = f"doctor/{uuid4().hex}", b"written by wasp doctor\n"
    files.write(name, content)
    try:
        if name not in files.below("doctor") or files.read(name) != content:
            raise ConfigError(f"{files.address}: what was written there cannot be read again")
    finally:
        files.remove([name])
    return f"{files.address}: written, read and removed"


def _workers(federation: Federation) -> str:
    """Say of every party whether its worker asks this Prefect server for work; ConfigError with those that do not."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    from flows.federation.worker import party_states

    if not PREFECT_API_URL.value():
        raise ConfigError(f"no Prefect server is named; {SERVER}")
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise ConfigError(f"{client.api_url} does not answer ({type(problem).__name__}); {SERVER}")
        states = party_states(client, list(federation.registry))
    missing = {party: state for party, state in states.items() if state != "waiting"}
    if missing:
        raise ConfigError(f"{len(missing)} of {len(states)} do not wait for rounds ({_some(missing)}); {START}")
    return f"all {len(states)} wait for rounds"


def _some(states: Mapping[str, str]) -> str:
    shown = [f"{party}: {state}" for party, state in list(states.items())[:MOST_NAMES]]
    more = len(states) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


# --- a party
def party_checks(party: Party) -> Checks:
    """Return what a party needs to take part; nothing of its rows is told but that they can be used."""
    return {
        "key": lambda _: party.public_line,
        "registry": partial(_registry, party),
        "rows": partial(_rows, party),
        "embedder": partial(_embedder, party),
        "cap": partial(_cap, party),
        "exchange": lambda _: _exchange(party.exchange),
        "prefect server": partial(_server, party),
    }


def _registry(party: Party, _: Path) -> str:
    return f"{len(party.member.registry)} parties, this one's key among them"


def _rows(party: Party, _: Path) -> str:
    from tasks.private.data.rows import identify

    identify(party.zone, party.private, None, (), may_be_none=True)
    return f"{party.private.where.path} can be used; whether its labels are the task's is seen in the first round"


def _embedder(party: Party, _: Path) -> str:
    choice, vectors = party.config.embedder, party.embedder.embed(["hello"])
    return f"{choice.connector}:{choice.model}, {vectors.shape[1]} dimensions; the coordinator's must be the same"


def _cap(party: Party, _: Path) -> str:
    cap, dataset = party.config.cap, party.ledger.known(party.private.name)
    said = f"epsilon {cap.epsilon:g} at delta {cap.delta:g} for one {cap.protects}"
    if dataset is None:
        return f"{said}; nothing was spent yet"
    status = party.ledger.status(dataset)
    if status.left == 0:
        raise ConfigError(f"{said}: epsilon {status.spent:.4g} is spent and nothing is left; the party will refuse")
    left = "without end" if status.left is None else f"{status.left:.4g}"
    return f"{said}; spent {status.spent:.4g}, left {left}"


def _server(party: Party, _: Path) -> str:
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import temporary_settings

    from flows.federation.worker import refusal

    with temporary_settings(party.settings()), get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise ConfigError(f"{client.api_url} does not answer ({type(problem).__name__}: {problem})")
        try:
            client.read_work_pools(limit=1)
        except PrefectHTTPStatusError as error:
            raise ConfigError(refusal(client, error)) from None
        return str(client.api_url)
