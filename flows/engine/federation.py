"""The parties of a run: their keys, their noise, what the run is called in the budget book of the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from connectors.interfaces.base import (ConfigError, digest)
from flows.runtime.state_folder import PARTY_KEY as PARTY_KEY
from flows.config.base import (AnyConfig, PartiesChoice)
from flows.runtime.paths import place
from flows.runtime.stores import open_exchange
from flows.config.yaml_files import parse_yaml
from tasks.accounting.votes import Noise
from tasks.steps.federation.party import registry_digest
from tasks.steps.federation.round_plans import end_run
from tasks.accounting.federated import (Parties, SharedNoise, shared)


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
