"""A party in its own process: configuration file, connectors, identity, and the loop of `wasp party`."""

import math
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from connectors.artifacts.remote_files import RemoteFiles
from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ArtifactError, ConfigError, LedgerError, PartyError
from connectors.ledger.ledger import PrivacyLedger
from connectors.security.signing import open_signing_key, public_line, public_pem
from flows.config.files import load_config
from flows.config.form import Strict
from flows.config.models import NAME, EmbedderChoice
from flows.config.paths import embedder_of, resolve_path
from flows.config.privacy import Delta, Epsilon
from flows.config.rows import PrivateRows
from flows.config.task_files import ClassName
from flows.engine.datasets import declared_classes, lacks_classes, private_ref, require_classes
from flows.engine.parties import read_registry
from flows.engine.prepare import join_group
from flows.runtime.library_output import terminal
from flows.runtime.manifest import lock_run_files
from flows.runtime.state_folder import PARTY_KEY, check_closed, current_user
from flows.runtime.stores import open_ledger, open_zone
from tasks.private.parties.party import (
    Keys,
    Party,
    notice_labels,
    register_rows,
    return_reservation,
    take_part,
)
from tasks.private.parties.rounds import COORDINATOR, ROUNDS, File, own_folder, pause, rounds_with


class PartyCap(Strict):
    """Maximum privacy loss of this party's rows over all runs."""

    epsilon: Epsilon = Field(
        description="Maximum total epsilon of all runs; 'inf' also allows runs without noise."
    )
    delta: Delta = Field(1e-5, description="Delta at which epsilon is computed.")
    protects: str = Field(
        "record", pattern="^(record|person)$", description="Protected unit: one row or one person."
    )


class PartyConfig(Strict):
    """A party. Relative paths start in the folder of the file; only the name leaves the party."""

    flow_name: ClassVar[str] = "party"

    name: str = Field(
        pattern=NAME, description="Name in the registry of parties: letters, digits, - _ and ."
    )
    private: PrivateRows = Field(description="The party's rows; opened by this party alone.")
    cap: PartyCap = Field(
        description="Maximum privacy loss of all runs; the party refuses runs that would exceed it."
    )
    registry: str = Field(
        description="File of all parties' public keys, identical to the coordinator's."
    )
    exchange: str = Field(
        description="Message exchange: a shared folder, s3://BUCKET/PREFIX, gs:// or abfs://."
    )
    embedder: EmbedderChoice = Field(
        EmbedderChoice(), description="The same model as the coordinator's."
    )
    home: str = Field(
        "state",
        description="Folder of this party's state: privacy ledger, keys and vectors of its rows.",
    )
    colluding: int = Field(
        1,
        ge=0,
        description="Minimum number of colluding parties a run must tolerate; other runs are refused.",
    )
    minimum: int = Field(
        2, ge=2, description="Minimum number of parties in a sum; runs with fewer are refused."
    )
    epsilon_at_most: Epsilon | None = Field(
        None,
        description="Maximum epsilon of one run, at the delta of the cap. Empty: only the cap limits it.",
    )
    declared_rows: int = Field(
        10_000,
        ge=1,
        le=2**31,
        description="Public upper bound of the number of rows, rounded up; the coordinator may learn it. Larger counts "
        "of votes are cut to it.",
    )
    labels: list[ClassName] | None = Field(
        None,
        min_length=1,
        description="Classes that this party votes on; runs with others are refused. Rows of other classes vote for no "
        "text. Empty: the declared classes of a registered dataset, or those that private.classes names.",
    )


def load_party(path: Path) -> Party:
    """Open the party of a configuration file; its state folder and its key are created on first use.

    Raises ConfigError, with the party's line of the registry, if the registry lacks its key.
    """
    config = load_config(PartyConfig, path)
    folder = str(path.resolve().parent)
    if config.name == COORDINATOR:
        raise ConfigError(
            f"{path}: name: '{COORDINATOR}' is the coordinator's line of the registry. Use another name."
        )
    home = Path(resolve_path(config.home, folder)).expanduser()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_closed(home)
    ledger = open_ledger(home)
    secret = open_signing_key(home, PARTY_KEY)
    registry, coordinator = _registered(
        config.name, secret, Path(resolve_path(config.registry, folder)).expanduser()
    )
    labels = config.labels or declared_classes(config.private, lambda: ledger)
    if labels is None and lacks_classes(config.private, lambda: ledger):
        raise ConfigError(
            f"{path}: labels is not set, and the classes of the rows are not declared, so this party could be charged "
            "for a run whose classes no row has. Write labels with the classes of the rows"
        )
    require_classes(config.private, lambda: ledger, labels or ())
    return Party(
        exchange=RemoteFiles(resolve_path(config.exchange, folder), own_folder(config.name)),
        artifacts=Artifacts(home),
        ledger=ledger,
        embedder=embedder_of(config.embedder),
        private=private_ref(config.private, lambda: ledger, folder),
        zone=open_zone(home),
        secret=secret,
        registry=registry,
        coordinator=coordinator,
        epsilon_at_most=math.inf if config.epsilon_at_most is None else config.epsilon_at_most,
        delta=config.cap.delta,
        who=current_user(),
        settle=partial(_set_group_and_cap, config, ledger),
        labels=labels,
        **config.model_dump(include={"name", "minimum", "colluding", "declared_rows"}),
    )


def _registered(name: str, secret: bytes, path: Path) -> tuple[dict[str, bytes], bytes]:
    """Return the public keys of all parties and of the coordinator; ConfigError if this party's or the latter lacks."""
    try:
        registry, coordinator = read_registry(path)
        if registry.get(name) != public_pem(secret) or not coordinator:
            raise ConfigError(
                f"registry: {path} lacks this party's key or the coordinator's. Complete it."
            )
    except ConfigError as error:
        raise ConfigError(f"{error} This party's line is {name}: {public_line(secret)}") from None
    return registry, coordinator


def _set_group_and_cap(config: PartyConfig, ledger: PrivacyLedger, dataset: str) -> None:
    """Write group and cap of the file to the ledger if they differ."""
    join_group(ledger, config.private, dataset)
    cap = config.cap
    status = ledger.status(dataset)
    current = None if status.cap is None else (status.cap, status.delta, status.cap_protects)
    if current != (None if math.isinf(cap.epsilon) else (cap.epsilon, cap.delta, cap.protects)):
        ledger.set_cap(dataset, cap.epsilon, cap.delta, current_user(), "party.yaml", cap.protects)


def serve_party(party: Party, is_stopped: Callable[[], bool] = lambda: False) -> None:
    """Answer the calls of coordinators until stopped.

    After the start, an exchange or a ledger that cannot be used for a moment is reported once and tried again: an end
    of this process would lose the round keys, and with them all open rounds. Raises an error if the rows, the ledger or
    the exchange cannot be used at the start, or if another process serves this party.
    """
    with lock_run_files(party.artifacts.home, f"party-{party.name}"):
        rounds = Rounds(party)
        # Rows that cannot be used end the start, which only their owner sees, never a round.
        register_rows(party)
        if notice := notice_labels(party):
            rounds.report(notice)
        party.exchange.below(ROUNDS)
        rounds.report("waiting for rounds. Stop with Ctrl+C.")
        reported = ""
        while not is_stopped():
            problem = ""
            try:
                rounds.answer(party.exchange.below(ROUNDS))
            except (ArtifactError, LedgerError) as error:
                problem = str(error)
            if problem and problem != reported:
                rounds.report(f"{problem} Trying again.")
            reported = problem
            pause(party.exchange)


class Rounds:
    """The rounds of this process: round keys, the last call answered in each round, open rounds.

    `ended`: ended runs whose reservations were returned.
    """

    def __init__(self, party: Party) -> None:
        self.party = party
        self.keys: Keys = {}
        self.answered: dict[str, str] = {}
        self.open: dict[str, Generator[None, None, str]] = {}
        self.ended: set[str] = set()

    def answer(self, names: list[str]) -> None:
        """Begin a round for each new call, continue open rounds, and return the reservations of ended runs.

        A round that the coordinator aborted or ended is dropped with its key. Raises LedgerError if a reservation
        cannot be returned; the next call tries again.
        """
        ended = {run.rpartition("/")[2] for run in rounds_with(names, File.ENDED)}
        aborted = rounds_with(names, File.ABORT)
        calls = rounds_with(names, File.CALL)
        calls = {
            at: call
            for at, call in calls.items()
            if at not in aborted and at.split("/")[1] not in ended
        }
        for plan in [plan for plan, key in self.keys.items() if key.plan.at not in calls]:
            del self.keys[plan]
        self.open = {at: steps for at, steps in self.open.items() if at in calls}
        for at, call in calls.items():
            if at not in self.open and self.answered.get(at) != call:
                self.answered[at] = call
                self.open[at] = take_part(self.party, at, call, self.keys)
            if at in self.open:
                self._continue(at)
        # Last: open rounds do not wait for the ledger.
        self.ended &= ended
        for run_id in sorted(ended - self.ended):
            return_reservation(self.party, run_id)
            self.ended.add(run_id)

    def _continue(self, at: str) -> None:
        try:
            next(self.open[at])
        except StopIteration as end:
            outcome = end.value
        except (PartyError, ArtifactError) as error:
            outcome = str(error)
        else:
            return
        del self.open[at]
        self.report(f"{at}: {outcome}")

    def report(self, text: str) -> None:
        """Print a line for the owner."""
        print(f"party {self.party.name}: {text}", file=terminal(), flush=True)
