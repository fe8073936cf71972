"""Parties of a federated run: their keys, their noise shares and their part of plan and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import yaml

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.federation import COORDINATOR, ROUNDS
from flows.config.base import AnyConfig
from flows.config.parties import PartiesChoice
from flows.config.paths import place
from flows.config.yaml_files import parse_yaml
from flows.runtime.stores import open_exchange
from tasks.accounting.federated import Parties, SharedNoise, guarantees, shared
from tasks.accounting.no_noise import finite
from tasks.accounting.votes import Noise
from tasks.federation.traffic import totals
from tasks.steps.federation.party import registry_digest
from tasks.steps.federation.round_plans import end_run

if TYPE_CHECKING:
    from flows.engine.run import Run


@dataclass(frozen=True, slots=True)
class Federation:
    """The parties of a run: their settings, their public keys (PEM) by name, and the coordinator's public key."""

    choice: PartiesChoice
    registry: Mapping[str, bytes]
    coordinator: bytes

    @property
    def parties(self) -> Parties:
        """Numbers of parties; ConfigError if they are impossible."""
        number = len(self.registry)
        return Parties(number, self.choice.minimum or number, self.choice.colluding)

    def shared(self, noise: Noise) -> SharedNoise:
        """Divide the noise of a run among the parties."""
        return shared(noise, self.parties)

    def check_coordinator(self, secret: bytes) -> None:
        """Raise ConfigError unless the registry has the public half of this coordinator's key."""
        from connectors.security.signing import public_line, public_pem

        if public_pem(secret) != self.coordinator:
            raise ConfigError(
                f"parties.registry: {self.choice.registry} has another coordinator's key; this coordinator's line is "
                f"{COORDINATOR}: {public_line(secret)}. Run: {REGISTER.format(path=self.choice.registry)}, and give "
                "the file to every party."
            )

    @property
    def fingerprint(self) -> str:
        """Identifier of the data of all parties; it depends on their keys, not on their records."""
        return digest(["federation", self.choice.name, registry_digest(self.registry, list(self.registry))])


def federation_of(config: AnyConfig) -> Federation | None:
    """Return the parties of a configuration; None if it has none."""
    if config.parties is None:
        return None
    return open_federation(config.parties, config.data_root)


def open_federation(choice: PartiesChoice, root: str | None) -> Federation:
    """Read the registry of the parties; ConfigError if it or the choice of parties is invalid."""
    registry, coordinator = read_registry(Path(place(choice.registry, root)).expanduser())
    unknown = [name for name in choice.only or [] if name not in registry]
    if unknown:
        raise ConfigError(f"parties.only: {choice.registry} has no party '{unknown[0]}'; known: {', '.join(registry)}")
    chosen = {name: key for name, key in registry.items() if name in (choice.only or registry)}
    federation = Federation(choice, chosen, coordinator)
    assert federation.parties  # raises ConfigError for impossible numbers
    return federation


def read_registry(path: Path) -> tuple[dict[str, bytes], bytes]:
    """Return the parties' public keys (PEM), sorted by name, and the coordinator's; ConfigError for an invalid file."""
    from connectors.security.signing import pem_of_line

    try:
        text = path.read_text(encoding="utf-8")
        lines: Any = parse_yaml(text, f"parties.registry: {path}")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"parties.registry: {path} cannot be read ({type(error).__name__}); {HOW}") from None
    if not isinstance(lines, dict) or len(set(lines) - {COORDINATOR}) < 2:
        raise ConfigError(f"parties.registry: {path} names fewer than two parties; {HOW}")
    keys = {}
    for name, line in sorted(lines.items(), key=lambda item: str(item[0])):
        if name != COORDINATOR:
            check_name(str(name))
        pem = pem_of_line(str(line))
        if pem is None:
            raise ConfigError(f"parties.registry: {path} has no key for '{name}'; {HOW}")
        keys[str(name)] = pem
    if len(set(keys.values())) < len(keys):
        raise ConfigError(f"parties.registry: {path} has the same key for two parties; each needs its own. {HOW}")
    if COORDINATOR not in keys:
        raise ConfigError(
            f"parties.registry: {path} has no line '{COORDINATOR}'; parties accept only plans that its key signed. Run "
            f"on the coordinator: {REGISTER.format(path=path)}, and give the file to every party."
        )
    return keys, keys.pop(COORDINATOR)


def register_coordinator(path: Path, secret: bytes) -> str:
    """Write the coordinator's line to a registry and return it; ConfigError if it has another coordinator."""
    from connectors.artifacts.atomic_files import write_whole
    from connectors.security.signing import public_line

    line = f"{COORDINATOR}: {public_line(secret)}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the registry cannot be read ({type(error).__name__}); {HOW}") from None
    present = [row.strip() for row in text.splitlines() if row.startswith(f"{COORDINATOR}:")]
    if present and present != [line]:
        raise ConfigError(
            f"{path}: the registry has another coordinator ({present[0]}). Remove this line if its plans are no longer "
            "valid, then run the command again."
        )
    if not present:
        content = text + ("" if not text or text.endswith("\n") else "\n") + line + "\n"
        write_whole(path, lambda file: _put(file, content))
    return line


def _put(file: BinaryIO, text: str) -> None:
    file.write(text.encode())


REGISTER = "wasp coordinator-key --registry {path}"

HOW = (
    "write one line per party, NAME: ed25519:KEY, as printed by `wasp party-keys --config party.yaml`; "
    "`wasp partition` writes it for an experiment"
)


def check_name(name: str) -> None:
    """Raise ConfigError unless a party's name is valid in names of files and work pools."""
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    if not (plain.isascii() and plain.isalnum() and name[0].isalnum() and len(name) <= 63):
        raise ConfigError(f"Party name '{name}' is invalid: use letters, digits, - _ and ., at most 63.")
    if name == COORDINATOR:
        raise ConfigError(f"Party name '{name}' is invalid: it is the coordinator's. Use another name.")


def notify_ended(values: Mapping[str, Any], run_id: str) -> None:
    """Notify the parties in a run's configuration that the run is abandoned."""
    choice = PartiesChoice.model_validate(values["parties"])
    end_run(open_exchange(place(choice.exchange, values.get("data_root")), ROUNDS), run_id)


COORDINATES = 4
"""Bytes of one masked count."""


def parties_planned(config: AnyConfig, noise: Noise) -> dict[str, Any] | None:
    """Return the part of a plan about the parties; None without parties."""
    federation = federation_of(config)
    if federation is None:
        return None
    return _about(federation, noise) | {
        "minutes": federation.choice.minutes,
        "embeddings": federation.choice.embeddings,
        "bytes_up_first_round": COORDINATES * config.method.candidates * noise.privacy.sides,
        "histograms": noise.privacy.sides,
    }


def parties_happened(run: Run, releases: Sequence[ArtifactRef]) -> dict[str, Any] | None:
    """Return the part of a report about the parties and their rounds; None without parties."""
    federation = run.prepared.federation
    if federation is None:
        return None
    infos = [run.tools.artifacts.info(ref) for ref in releases]
    rounds = [
        {
            "iteration": iteration,
            "attempt": info.get("attempt", 0) + 1,
            "parties": len(info.get("parties", ())),
            "dropped": dict(info.get("dropped", {})),
            "bytes": totals(info.get("bytes", {})),
            "of_one": info.get("bytes", {}).get("kinds", {}),
            "read_back": bool(info.get("read_back")),
        }
        for iteration, info in enumerate(infos)
    ]
    return _about(federation, run.prepared.noise) | {"rounds": rounds}


def traffic_of(run: Run, releases: Sequence[ArtifactRef], iteration: int) -> dict[str, int]:
    """Return the bytes sent in the vote of an iteration, by direction; empty without messages."""
    if run.prepared.federation is None or len(releases) <= iteration:
        return {}
    info = run.tools.artifacts.info(releases[iteration])
    return {} if info.get("read_back") else totals(info.get("bytes", {}))


def _about(federation: Federation, noise: Noise) -> dict[str, Any]:
    shared, parties = federation.shared(noise), federation.parties
    return {
        "names": list(federation.registry),
        "number": parties.number,
        "minimum": parties.minimum,
        "colluding": parties.colluding,
        "share": shared.share_int / noise.scale,
        "guarantees": [
            {"colluding": case.colluding, "epsilon": finite(case.epsilon), "promised": case.promised}
            for case in (guarantees(shared) if noise.releases else ())
        ],
    }


MOST_NAMES = 6


def planned_lines(values: Mapping[str, Any], epsilon: Any) -> list[str]:
    """Return lines about parties, their charges and the guarantees if some collude."""
    names = values["names"]
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    lines = [
        f"parties       {values['number']} ({shown}), at least {values['minimum']} in each sum; timeout "
        f"{values['minutes']:g} minutes",
        f"each party    charges these releases to its own ledger and adds noise of sigma {values['share']:.4f} votes",
        f"sends         {values['bytes_up_first_round']} bytes of masked counts in the first round, "
        f"{values['histograms']} for each text; receives vectors as {values['embeddings']}",
    ]
    stated = values["colluding"]
    for case in values["guarantees"]:
        holds = "holds" if case["promised"] else "does NOT hold"
        mark = " (stated)" if case["colluding"] == stated else ""
        lines.append(
            f"if {case['colluding']:>3} collude{mark}: epsilon {epsilon(case['epsilon'])}, the guarantee {holds}"
        )
    return lines
