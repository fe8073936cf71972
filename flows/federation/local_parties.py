"""Parties on this machine, for experiments: folders with their rows, and a process for each until a run ends.

Each party has its folder, records, key and ledger as on a machine of its own. Without folders, the shipped example's
records of the task are divided among the parties; own records are divided by `wasp partition`, because their releases
are charged to the ledgers of these parties alone.
"""

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import yaml

from connectors.artifacts.atomic_files import locked, make_folder
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.rows import BUILTIN, PrivateRef, RowsRef
from connectors.security.signing import open_signing_key, public_line
from flows.config.base import AnyConfig
from flows.config.paths import resolve_path
from flows.config.rows import PartiesChoice
from flows.runtime.state_folder import COORDINATOR_KEY, PARTY_KEY, state_folder
from flows.runtime.stores import open_zone
from flows.runtime.terminal_progress import display
from tasks.private.parties.partition import Partition
from tasks.private.parties.rounds import COORDINATOR
from tasks.private.parties.rows import ROWS, labels_of, write_parties

PARTY_FILE = "party.yaml"
REGISTRY = "parties.yaml"
START_SECONDS = 180.0
READY = b"waiting for rounds"
WITHOUT_PARTIES = "--local-parties needs 'parties:' in the configuration, as in federated_here"
EXAMPLES = ("support_desk",)
"""Tasks whose example records are shipped."""

_ONE_AT_A_TIME = threading.Lock()
"""One process serves a party, so that federated runs of one process take turns."""


def partition(source: RowsRef, folder: Path, settings: Partition, home: Path | None = None) -> Json:
    """Split the rows and return the parties without their private row counts.

    Each party gets its file, rows and long-term key; the registry of all keys, the coordinator's included, is next to
    their folders. The coordinator's key is in its state folder `home`, None for this process's.
    """
    home = home or state_folder()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    zone = open_zone(home)
    private = PrivateRef(folder.name, source)
    names = write_parties(zone, private, settings, folder)
    labels = labels_of(zone, private)
    connector, _, model = settings.embedder.partition(":")
    # Files of parties have these columns, whatever the source calls them.
    private_values = {"path": ROWS, "text": "text", "label": "label"}
    protects = "record"
    if source.person:
        private_values["person"] = "person"
        protects = "person"
    values: Json = {
        "private": private_values,
        "cap": {"epsilon": settings.epsilon, "delta": 1e-5, "protects": protects},
        "colluding": settings.colluding,
        "registry": f"../{REGISTRY}",
        "exchange": "../exchange",
        "embedder": {"connector": connector, "model": model},
    }
    if labels:
        values["labels"] = labels
    lines = []
    for name in names:
        text = yaml.safe_dump({"name": name} | values, sort_keys=False, default_flow_style=None)
        (folder / name / PARTY_FILE).write_text(text, encoding="utf-8")
        (folder / name / "state").mkdir(mode=0o700)
        key = public_line(open_signing_key(folder / name / "state", PARTY_KEY))
        lines.append(f"{name}: {key}\n")
    lines.append(f"{COORDINATOR}: {public_line(open_signing_key(home, COORDINATOR_KEY))}\n")
    (folder / REGISTRY).write_text("".join(lines), encoding="utf-8")
    (folder / "exchange").mkdir(mode=0o700)
    return {"folder": str(folder), "parties": names, "registry": str(folder / REGISTRY)}


@contextmanager
def local_parties(config: AnyConfig, number: int) -> Iterator[None]:
    """Start the `number` parties of a configuration; end them after the block.

    Raises ConfigError if the configuration has no parties, their folders have another number of them, or one of the
    processes ended before it was ready.
    """
    if config.parties is None:
        raise ConfigError(WITHOUT_PARTIES)
    # Each party has the state folder of its own file.
    environment = {name: value for name, value in os.environ.items() if name != "WASP_HOME"}
    processes = {}
    with _ONE_AT_A_TIME, _turn(config.parties, config.data_root), ExitStack() as started:
        for file in _party_files(config, config.parties, number):
            log = started.enter_context((file.parent / "party.log").open("wb"))
            command = [sys.executable, "-m", "flows.cli.main", "party", "--config", str(file)]
            process = subprocess.Popen(  # noqa: S603
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            # In reverse order at the end: kill, which a party survives at any time, then wait.
            started.enter_context(process)
            started.callback(process.kill)
            processes[file.parent / "party.log"] = process
        deadline = time.monotonic() + START_SECONDS
        while not all(READY in log.read_bytes() for log in processes):
            ended = [log for log, process in processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise ConfigError(
                    f"--local-parties: a party did not start. Read {(ended or list(processes))[0]}"
                )
            time.sleep(0.3)
        yield


def _turn(parties: PartiesChoice, root: str | None) -> AbstractContextManager[bool]:
    """Wait until no other process of this state folder runs these parties."""
    # Not in their folder, which may not exist yet and appears as a whole.
    folder = state_folder() / "locks"
    make_folder(folder)
    return locked(folder / f"{digest([str(_registry(parties, root))])[:16]}.lock")


def _registry(parties: PartiesChoice, root: str | None) -> Path:
    return Path(resolve_path(parties.registry, root)).expanduser().resolve()


def _party_files(config: AnyConfig, parties: PartiesChoice, number: int) -> list[Path]:
    """Return the parties' files in the registry's folder; write those of the shipped example if there is none."""
    registry = _registry(parties, config.data_root)
    folder = registry.parent
    if not registry.exists():
        if config.task not in EXAMPLES:
            raise ConfigError(
                f"{folder} has no parties, and no example records of the task '{config.task}' are shipped. Write the "
                f"folders first: wasp partition ROWS {folder} --parties {number}"
            )
        embedder = f"{config.embedder.connector}:{config.embedder.model}"
        settings = Partition(
            number, epsilon=math.inf, embedder=embedder, colluding=parties.colluding
        )
        partition(RowsRef(f"{BUILTIN}{config.task}/private.parquet"), folder, settings)
        display().say(f"{folder}: the shipped example's records, divided among {number} parties")
    files = sorted(folder.glob(f"*/{PARTY_FILE}"))
    if len(files) != number:
        raise ConfigError(
            f"{folder} has {len(files)} parties, and --local-parties asks for {number}"
        )
    return files
