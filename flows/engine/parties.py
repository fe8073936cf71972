"""Parties of a federated run: their keys, their noise shares and their part of plan and report."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from connectors.artifacts.remote_files import RemoteFiles
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.security.signing import pem_of_line, public_line, public_pem
from flows.config.base import AnyConfig
from flows.config.models import NAME
from flows.config.paths import resolve_path
from flows.config.yaml_files import parse_yaml
from tasks.private.parties.coordinator import Federation, end_run, name_some
from tasks.private.parties.party import registry_digest
from tasks.private.parties.promise import Parties, SharedNoise, guarantees
from tasks.private.parties.rounds import COORDINATOR, ROUNDS
from tasks.private.votes.release import VotesRelease

HOW = "Write one line per party, NAME: ed25519:KEY, as `wasp party --config party.yaml` prints it."


def federation_of(config: AnyConfig) -> Federation | None:
    """Return the parties of a configuration, None if it has none; ConfigError for an invalid registry or number."""
    choice = config.parties
    if choice is None:
        return None
    registry, coordinator = read_registry(
        Path(resolve_path(choice.registry, config.data_root)).expanduser()
    )
    parties = Parties(len(registry), choice.minimum or len(registry), choice.colluding)
    return Federation(config.flow_name, registry, coordinator, parties, choice.minutes)


def identify_parties(config: AnyConfig, federation: Federation, secret: bytes) -> str:
    """Return the identifier of the data of all parties; it depends on their keys, not on their records.

    Raises ConfigError unless the registry has the public half of this coordinator's key.
    """
    choice = config.parties
    assert choice is not None
    if public_pem(secret) != federation.coordinator:
        raise ConfigError(
            f"parties.registry: {choice.registry} lacks this coordinator's key, and parties accept only plans "
            f"that it signed. Write its line and give the file to every party: {COORDINATOR}: {public_line(secret)}"
        )
    return digest(
        ["federation", choice.name, registry_digest(federation.registry, list(federation.registry))]
    )


def read_registry(path: Path) -> tuple[dict[str, bytes], bytes]:
    """Return the parties' public keys (PEM), sorted by name, and the coordinator's, empty if the file lacks it.

    Raises ConfigError for an invalid file.
    """
    try:
        lines: Any = parse_yaml(path.read_text(encoding="utf-8"), f"parties.registry: {path}")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"parties.registry: {path} cannot be read ({type(error).__name__}). {HOW}"
        ) from None
    if not isinstance(lines, dict) or len(set(lines) - {COORDINATOR}) < 2:
        raise ConfigError(f"parties.registry: {path} names fewer than two parties. {HOW}")
    keys: dict[str, bytes] = {}
    for name, line in sorted((str(name), str(line)) for name, line in lines.items()):
        if not re.fullmatch(NAME, name):
            raise ConfigError(
                f"parties.registry: {path} has the invalid name '{name}'. Use letters, digits, - _ and ., at most 63."
            )
        pem = pem_of_line(line)
        if pem is None or pem in keys.values():
            raise ConfigError(
                f"parties.registry: {path} has no valid key of its own for '{name}'. {HOW}"
            )
        keys[name] = pem
    coordinator = keys.pop(COORDINATOR, b"")
    return keys, coordinator


def notify_ended(values: Mapping[str, Any], run_id: str) -> None:
    """Notify the parties in a run's configuration that the run is abandoned."""
    exchange = resolve_path(values["parties"]["exchange"], values.get("data_root"))
    end_run(RemoteFiles(exchange, ROUNDS), run_id)


def planned_parties(federation: Federation | None, votes: VotesRelease | None) -> Json | None:
    """Return the part of a plan about the parties and their `votes`; None without parties."""
    if federation is None or votes is None:
        return None
    noise = votes.noise
    shared = SharedNoise(noise, federation.parties)
    return asdict(federation.parties) | {
        "names": list(federation.registry),
        "minutes": federation.minutes,
        "share": shared.share_int / noise.scale,
        # A run without rounds has no noise whose guarantee could fail.
        "guarantees": guarantees(shared) if noise.releases else [],
    }


def actual_parties(planned: Json, releases: Iterable[Json]) -> Json:
    """Return the part of a report about the parties and their rounds, from the plan and the info of the releases.

    A release that was read back from the ledger has no parties.
    """
    rounds = [
        {
            "iteration": iteration,
            # Stored from 0, shown from 1. A release that was read back has neither attempt nor parties.
            "attempt": info.get("attempt", 0) + 1,
            "parties": len(info.get("parties", ())),
            "dropped": dict(info.get("dropped", {})),
        }
        for iteration, info in enumerate(releases)
    ]
    return {**planned, "rounds": rounds}


def planned_lines(values: Json, epsilon: Callable[[float | None], str]) -> list[str]:
    """Return lines about parties, their charges and the guarantees if some collude."""
    lines = [
        f"parties       {values['number']} ({name_some(values['names'])}), at least {values['minimum']} in each sum; "
        f"timeout {values['minutes']:g} minutes",
        f"each party    charges these releases to its own ledger and adds noise of sigma {values['share']:.4f} votes",
    ]
    for case in values["guarantees"]:
        holds = "does NOT hold"
        if case["promised"]:
            holds = "holds"
        mark = ""
        if case["colluding"] == values["colluding"]:
            mark = " (stated)"
        lines.append(
            f"if {case['colluding']:>3} collude{mark}: epsilon {epsilon(case['epsilon'])}, the guarantee {holds}"
        )
    return lines
