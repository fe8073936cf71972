"""Checks of `wasp doctor` for coordinators and parties of federated runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.federation import ROUNDS
from flows.config.paths import place
from flows.engine.federation import Federation, federation_of
from flows.runtime.stores import open_exchange

if TYPE_CHECKING:
    from connectors.artifacts.remote_files import RemoteFiles
    from flows.config.base import AnyConfig
    from flows.federation.party import Party

Checks = dict[str, Callable[[Path], str]]

SERVER = "Set PREFECT_API_URL to the Prefect server that the parties use"
START = "Start each on its machine: wasp party --config party.yaml"
MOST_NAMES = 5


# --- the coordinator
def coordinator_checks(config: AnyConfig) -> Checks:
    """Return the checks of a federated run in addition to its models.

    Empty without parties.
    """
    choice = config.parties
    if choice is None:
        return {}
    exchange = place(choice.exchange, config.data_root)
    return {
        "parties": lambda _: _describe_parties(_federation(config)),
        "exchange": lambda _: _exchange(open_exchange(exchange, ROUNDS)),
        "party workers": lambda _: _workers(_federation(config)),
    }


def _federation(config: AnyConfig) -> Federation:
    federation = federation_of(config)
    assert federation is not None
    return federation


def _describe_parties(federation: Federation) -> str:
    parties = federation.parties
    return (
        f"{parties.number} in the registry, at least {parties.minimum} in each sum, guarantee holds with up to "
        f"{parties.colluding} colluding; {_describe_colluding(parties.colluding)}"
    )


def _describe_colluding(colluding: int) -> str:
    """Return whether a guarantee protects parties from each other."""
    readers = "every party can read the sums and knows its own share of the noise"
    if colluding == 0:
        return f"{readers}, so parties are not protected from each other (colluding: 1 protects them)"
    return f"{readers}, so each counts as one of them"


def _exchange(files: RemoteFiles) -> str:
    """Write, list, read and remove a file in this writer's own folder.

    Raises ArtifactError if the exchange does not respond.
    """
    if files.is_folder and not Path(files.address).is_dir():
        raise ConfigError(f"{files.address}: folder does not exist. Create it, or mount the shared folder.")
    name, content = f"{files.prefix}/doctor/{uuid4().hex}", b"written by wasp doctor\n"
    files.write(name, content)
    try:
        if name not in files.below(f"{files.prefix}/doctor") or files.read(name) != content:
            raise ConfigError(f"{files.address}: a file that was written cannot be read. Check the permissions.")
    finally:
        files.remove([name])
    return f"{files.address}: written, read and removed"


def _workers(federation: Federation) -> str:
    """Check that every party's worker polls this Prefect server.

    ConfigError lists the others.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    from flows.federation.worker import party_states

    if not PREFECT_API_URL.value():
        raise ConfigError(f"PREFECT_API_URL: not set. {SERVER}")
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise ConfigError(f"{client.api_url}: no response ({type(problem).__name__}). {SERVER}")
        states = party_states(client, list(federation.registry))
    missing = {party: state for party, state in states.items() if state != "waiting"}
    if missing:
        raise ConfigError(
            f"party workers: {len(missing)} of {len(states)} do not wait for rounds ({_first_states(missing)}). {START}"
        )
    return f"all {len(states)} wait for rounds"


def _first_states(states: Mapping[str, str]) -> str:
    shown = [f"{party}: {state}" for party, state in list(states.items())[:MOST_NAMES]]
    more = len(states) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


# --- a party
def party_checks(party: Party) -> Checks:
    """Return the checks of a party.

    About its rows they report only that they can be used.
    """
    return {
        "key": lambda _: party.public_line,
        "registry": partial(_registry, party),
        "guarantee": lambda _: _guarantee(party.config.colluding),
        "rows": partial(_rows, party),
        "embedder": partial(_embedder, party),
        "cap": partial(_cap, party),
        "exchange": lambda _: _exchange(party.exchange),
        "prefect server": partial(_server, party),
    }


def _registry(party: Party, _: Path) -> str:
    return f"{len(party.member.registry)} parties, this one's key among them"


def _guarantee(colluding: int) -> str:
    return f"accepts runs that protect against at least {colluding} colluding; {_describe_colluding(colluding)}"


def _rows(party: Party, _: Path) -> str:
    from tasks.private.data.rows import identify

    identity = identify(party.zone, party.private, None, ())
    if len(identity.records) > party.config.declared_rows:
        raise ConfigError(f"declared_rows: {party.config.declared_rows} is below the number of rows. Raise it.")
    return f"{party.private.where.path} can be used; rows whose class is not in a run vote for no text"


def _embedder(party: Party, _: Path) -> str:
    choice, vectors = party.config.embedder, party.embedder.embed(["hello"])
    return f"{choice.connector}:{choice.model}, {vectors.shape[1]} dimensions; the coordinator must use the same model"


def _cap(party: Party, _: Path) -> str:
    cap, dataset = party.config.cap, party.ledger.known(party.private.name)
    cap_text = f"epsilon {cap.epsilon:g} at delta {cap.delta:g} for one {cap.protects}"
    if dataset is None:
        return f"{cap_text}; nothing spent yet"
    status = party.ledger.status(dataset)
    if status.left == 0:
        raise ConfigError(f"cap: {cap_text}; epsilon {status.spent:.4g} is spent. Raise the cap.")
    left = "no limit" if status.left is None else f"{status.left:.4g}"
    return f"{cap_text}; spent {status.spent:.4g}, left {left}"


def _server(party: Party, _: Path) -> str:
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import temporary_settings

    from flows.federation.worker import refusal

    with temporary_settings(party.settings()), get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise ConfigError(f"{client.api_url}: no response ({type(problem).__name__}: {problem})")
        try:
            client.read_work_pools(limit=1)
        except PrefectHTTPStatusError as error:
            raise ConfigError(refusal(client, error)) from None
        return str(client.api_url)
