"""The parties of a run: their keys, their noise, what the run is called in the budget book of the coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
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
    """The parties that take part: their public keys (PEM) by name, and for how many the noise is made."""

    choice: PartiesChoice
    registry: Mapping[str, bytes]

    @property
    def parties(self) -> Parties:
        """The numbers; ConfigError for such as cannot be."""
        number = len(self.registry)
        return Parties(number, self.choice.minimum or number, self.choice.colluding)

    def shared(self, noise: Noise) -> SharedNoise:
        """Share a run's noise."""
        return shared(noise, self.parties)

    @property
    def fingerprint(self) -> str:
        """What names the rows of all parties together here: nothing of the rows, only whose they are."""
        return digest(["federation", self.choice.name, registry_digest(self.registry, list(self.registry))])


def federation_of(config: AnyConfig) -> Federation | None:
    """Return the parties of a configuration, None where it has private rows of its own or none."""
    if config.parties is None:
        return None
    return open_federation(config.parties, config.data_root)


def open_federation(choice: PartiesChoice, root: str | None) -> Federation:
    """Read the registry; ConfigError with the file, the name and what to write."""
    registry = read_registry(Path(place(choice.registry, root)).expanduser())
    unknown = [name for name in choice.only or [] if name not in registry]
    if unknown:
        raise ConfigError(f"parties.only: {choice.registry} has no party '{unknown[0]}'; known: {', '.join(registry)}")
    chosen = {name: key for name, key in registry.items() if name in (choice.only or registry)}
    found = Federation(choice, chosen)
    assert found.parties  # the numbers fit, or say what does not
    return found


def read_registry(path: Path) -> dict[str, bytes]:
    """Return the public keys (PEM) of a registry by name, sorted; ConfigError for anything else."""
    from connectors.security.signing import pem_of_line

    try:
        text = path.read_text(encoding="utf-8")
        lines: Any = parse_yaml(text, f"parties.registry: {path}")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"parties.registry: {path} cannot be read ({type(error).__name__}); {HOW}") from None
    if not isinstance(lines, dict) or len(lines) < 2:
        raise ConfigError(f"parties.registry: {path} names fewer than two parties; {HOW}")
    keys = {}
    for name, line in sorted(lines.items(), key=lambda one: str(one[0])):
        check_name(str(name))
        pem = pem_of_line(str(line))
        if pem is None:
            raise ConfigError(f"parties.registry: {path} has no key for '{name}'; {HOW}")
        keys[str(name)] = pem
    if len(set(keys.values())) < len(keys):
        raise ConfigError(f"parties.registry: {path} gives two parties the same key; each makes its own. {HOW}")
    return keys


HOW = "it holds a line for each party, NAME: ed25519:KEY, as `wasp party-keys --config party.yaml` prints it"


def check_name(name: str) -> None:
    """Raise ConfigError unless a party's name can stand in names of files and pools."""
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    if not (plain.isascii() and plain.isalnum() and name[0].isalnum() and len(name) <= 63):
        raise ConfigError(f"A party cannot be called '{name}': use letters, digits, - _ and ., at most 63.")


def tell_ended(values: Mapping[str, Any], run_id: str) -> None:
    """Tell the parties of a run, by its configuration, that it is given up."""
    choice = PartiesChoice.model_validate(values["parties"])
    end_run(open_exchange(place(choice.exchange, values.get("data_root"))), run_id)


COORDINATES = 4
"""Bytes of one masked count."""


def parties_planned(config: AnyConfig, noise: Noise) -> dict[str, Any] | None:
    """Return what a plan says of the parties; None where there are none."""
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
    """Return what a report says of the parties and their rounds; None where there are none."""
    federation = run.prepared.federation
    if federation is None:
        return None
    found = [(iteration, run.tools.artifacts.info(ref)) for iteration, ref in enumerate(releases)]
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
        for iteration, info in found
    ]
    return _about(federation, run.prepared.noise) | {"rounds": rounds}


def traffic_of(run: Run, releases: Sequence[ArtifactRef], iteration: int) -> dict[str, int]:
    """Return the bytes of all parties in the vote of an iteration, by way; empty where none travelled."""
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
            {"colluding": one.colluding, "epsilon": finite(one.epsilon), "promised": one.promised}
            for one in (guarantees(shared) if noise.releases else ())
        ],
    }


MOST_NAMES = 6
READ_BACK = "read back from the budget book, no party was asked"


def planned_lines(told: Mapping[str, Any], epsilon: Any) -> list[str]:
    """Say who takes part, what each is charged, and what holds when some collude."""
    names = told["names"]
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    lines = [
        f"parties       {told['number']} ({shown}), at least {told['minimum']} in each sum; each is waited for "
        f"{told['minutes']:g} minutes",
        f"each party    pays these releases from its own budget book and adds noise of sigma {told['share']:.4f} votes",
        f"sends         {told['bytes_up_first_round']} bytes of masked counts in the first round, "
        f"{told['histograms']} for each text; gets vectors as {told['embeddings']}",
    ]
    stated = told["colluding"]
    for one in told["guarantees"]:
        kept = "kept" if one["promised"] else "NOT kept"
        mark = " (stated)" if one["colluding"] == stated else ""
        lines.append(
            f"if {one['colluding']:>3} collude{mark}: epsilon {epsilon(one['epsilon'])}, the promise is {kept}"
        )
    return lines


def happened_lines(told: Mapping[str, Any]) -> list[str]:
    """Say what travelled in each round, and who was dropped."""
    lines = []
    for one in told["rounds"]:
        lines.append(f"parties     iteration {one['iteration']}: {_round(one)}")
        lines += [f"            without {party}: {why}" for party, why in one["dropped"].items()]
    return lines


def _round(one: Mapping[str, Any]) -> str:
    ways = one["bytes"]
    took = (
        f"{one['parties']} in attempt {one['attempt']}, {ways['down']} bytes down, {ways['between']} between, "
        f"{ways['up']} up"
    )
    if not one.get("read_back"):
        return took
    return f"{READ_BACK}; when it was summed: {took}" if one["parties"] else f"{READ_BACK}, whose round is gone"
