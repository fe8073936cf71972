"""Federated runs on this machine: a Prefect server, and a process for each party, until the run ends.

Each party has its folder, records, key and ledger as on a machine of its own. Without folders, the shipped example's
records of the task are divided among the parties; own records are divided by `wasp partition`, because their releases
are charged to the ledgers of these parties alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import BUILTIN, RowsRef
from flows.config.paths import place
from flows.federation.partition import PARTY_FILE, PartyFile, partition
from flows.runtime.state_folder import state_folder
from flows.runtime.terminal_progress import display
from tasks.federation.partition import Partition

if TYPE_CHECKING:
    from flows.config.base import AnyConfig

WAIT_SECONDS = 180.0
END_SECONDS = 30.0
SERVER = "PREFECT_API_URL"
WITHOUT_PARTIES = "--local-parties needs 'parties:' in the configuration, as in federated_here"
EXAMPLES = ("support_desk",)
"""Tasks whose example records are shipped."""


_ONE_AT_A_TIME = threading.Lock()
"""Names of parties are unique on a server, so that federated runs of one process take turns."""


@contextmanager
def local_server() -> Iterator[None]:
    """Start a Prefect server if none is set; end it after the block.

    Call it before the first import of Prefect, which reads the address of its server only then.
    """
    with ExitStack() as started:
        if not os.environ.get(SERVER):
            os.environ[SERVER] = started.enter_context(_server())
        yield


@contextmanager
def local_parties(config: AnyConfig, number: int) -> Iterator[None]:
    """Start the `number` parties of a configuration; end them after the block.

    Raises:
        ConfigError: the configuration has no parties, their folders have another number of them, or one of the
            processes ended.
    """
    if config.parties is None:
        raise ConfigError(WITHOUT_PARTIES)
    with _ONE_AT_A_TIME, ExitStack() as started:
        parties = {file: started.enter_context(_party(file)) for file in _party_files(config, number)}
        _wait_for_parties(parties)
        yield


def _party_files(config: AnyConfig, number: int) -> list[Path]:
    """Return the parties' files beside the registry; write them for the shipped example if there is no registry."""
    assert config.parties is not None
    registry = Path(place(config.parties.registry, config.data_root)).expanduser().resolve()
    if not registry.exists():
        _divide_example(config, registry.parent, number)
    files = sorted(registry.parent.glob(f"*/{PARTY_FILE}"))
    if len(files) != number:
        raise ConfigError(f"{registry.parent} has {len(files)} parties, and --local-parties asks for {number}")
    return files


def _divide_example(config: AnyConfig, folder: Path, number: int) -> None:
    rows = f"{BUILTIN}{config.task}/private.parquet"
    if config.task not in EXAMPLES:
        raise ConfigError(
            f"{folder} has no parties, and no example records of the task '{config.task}' are shipped. Write the "
            f"folders first: wasp partition ROWS {folder} --parties {number}"
        )
    embedder = f"{config.embedder.connector}:{config.embedder.model}"
    colluding = config.parties.colluding if config.parties else 1
    partition(RowsRef(path=rows), folder, Partition(number), PartyFile("inf", embedder=embedder, colluding=colluding))
    display().say(f"{folder}: the shipped example's records, divided among {number} parties")


@contextmanager
def _server() -> Iterator[str]:
    """Start a Prefect server on this machine; the value is the address of its API."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    log = state_folder() / "local-server.log"
    with _process(command, log, dict(os.environ)) as server:
        _wait_for(lambda: _answers(port), [(server, log)], "the Prefect server of --local-parties does not answer")
        yield f"http://127.0.0.1:{port}/api"


@contextmanager
def _party(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if name != "WASP_HOME"}
    command = [sys.executable, "-m", "flows.cli.main", "party", "--config", str(file)]
    with _process(command, _log_of(file), environment) as process:
        yield process


def _log_of(file: Path) -> Path:
    return file.parent / "party.log"


def _wait_for_parties(parties: Mapping[Path, subprocess.Popen[bytes]]) -> None:
    from prefect import get_client

    from flows.federation.worker import party_states

    def are_waiting() -> bool:
        with get_client(sync_client=True) as client:
            return set(party_states(client, [file.parent.name for file in parties]).values()) == {"waiting"}

    running = [(process, _log_of(file)) for file, process in parties.items()]
    _wait_for(are_waiting, running, f"The {len(parties)} parties did not start")


@contextmanager
def _process(command: Sequence[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; its output goes to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  (our own programs)
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(holds: Callable[[], bool], running: Sequence[tuple[subprocess.Popen[bytes], Path]], problem: str) -> None:
    """Wait until `holds()`; ConfigError with `problem` after a timeout, or once one of the `running` has ended."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        ended = [log for process, log in running if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise ConfigError(f"{problem}. Read {ended[0]}" if ended else problem)
        time.sleep(0.3)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=2):
            return True
    except OSError:
        return False
