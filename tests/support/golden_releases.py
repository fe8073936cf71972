"""Record of what every configuration releases: charges, plan, warnings, outcomes, audits and run id.

`python -m tests.support.golden_releases` writes it. A change of the code without effect on runs changes no byte of it.
This module and `golden_steps` contain all access to the product: a renamed class or function changes them alone.
"""

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest import mock

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import RowsRef
from flows.catalog import find_flow, flow_names, method_names
from flows.compare.cells import cells_of
from flows.compare.config import CompareConfig
from flows.config.extends import flow_and_file
from flows.config.files import apply_changes, check_config, load_config
from flows.config.task_files import load_task
from flows.engine.parties import federation_of
from flows.engine.plan import numbers_of
from flows.engine.prepare import guarantee_of
from flows.federation.local_parties import partition
from tasks.private.parties.partition import Partition
from tasks.private.parties.promise import SharedNoise, shared_charge
from tests.support.golden_kinds import KINDS
from tests.support.golden_steps import keys_of_steps, versions_of_steps
from tests.support.paths import GOLDEN, ROOT
from tests.support.run_ids import id_of, shipped
from tests.support.runs.pipeline import METHODS, values

FOLDER = GOLDEN / "releases"
SHIPPED = FOLDER / "shipped.json"
TESTED = FOLDER / "tested.json"
COMPARED = FOLDER / "compared.json"
STEPS = FOLDER / "steps.json"

PARTIES = 10
"""Parties of a federated run whose registry does not ship."""

NO_RUNS = ("bases#desk",)
"""Bases that can be loaded but not planned."""

COMPOSED = ("dp_sgd", "laplace", "discrete_laplace")
"""Events whose joint cost is composed numerically."""

TOLERANCE = 1e-8
"""Largest difference of such costs between machines, relative; up to 1e-9 was seen."""

NO_DATA = "/srv/wasp/data"
"""A data folder that exists nowhere: the record must not depend on the files of a machine."""


# --- one function for each thing that the product computes
def charges_of(guarantee: Any) -> list[Any]:
    """Return the charges of a run in the order of the ledger; equal ones in a row once, with their number."""
    return counted(guarantee.charges)


def shared_charge_of(config: Any, guarantee: Any) -> Any:
    """Return the charge of one release in the ledger of each party; None without parties."""
    federation = federation_of(config)
    if federation is None or not guarantee.charges:
        return None
    return shared_charge(SharedNoise(guarantee.noise, federation.parties))


def plan_of(config: Any) -> dict[str, Any]:
    """Return the plan of a run as a user sees it: numbers, lines, warnings, budget, opening of the rows."""
    values = numbers_of(config)
    return values | {"events": counted(values["events"])}


def released_by(config: Any, guarantee: Any) -> list[dict[str, Any]]:
    """Return every release of a run in the order of the ledger."""
    card = load_task(config.task)
    return [
        {
            "name": release.name,
            "charges": len(release.charges()),
            "lines": release.plan(),
            "warnings": release.warnings(card),
            "outcome": release.outcome(),
            "audits": [audit_of(case) for case in release.audits()],
        }
        for release in guarantee.releases
    ]


def audit_of(case: Any) -> dict[str, Any]:
    """Return an audit of a release, with the claims of its attack."""
    attack = case.attack() if case.attack is not None else None
    return {
        "kind": case.kind,
        "charge": case.charge,
        "claim": case.claim,
        "attack": None if attack is None else {"name": attack.name, "claims": attack.claims},
    }


def audit_plan_of(config: Any) -> dict[str, Any]:
    """Return the plan of an audit; without problems, which depend on the installed packages and models."""
    values: dict[str, Any] = find_flow(config.flow_name).plan(config)
    return {name: value for name, value in values.items() if name != "problems"}


# --- configurations
def shipped_names() -> list[str]:
    """Return the names of all shipped configurations that release something, or attack a release."""
    names: list[str] = []
    for name in shipped(ROOT / "deployments" / "configs"):
        try:
            flow, file = flow_and_file(name, None, flow_names())
            if flow == "compare" or name in NO_RUNS:
                continue
            load_config(find_flow(flow).config, file)
        except ConfigError:
            continue  # a base, which is no run
        names.append(name)
    return names


def shipped_config(name: str, registry: Path) -> Any:
    """Return a shipped configuration; a federated one with the parties of `registry`."""
    flow, file = flow_and_file(name, None, flow_names())
    config = load_config(find_flow(flow).config, file)
    if flow not in method_names() or config.parties is None:
        return config
    return load_config(find_flow(flow).config, file, [f"parties.registry={registry}"])


def tested_names() -> list[str]:
    """Return the names of all configurations of the tests: each method, and each kind of release."""
    return [*METHODS, *KINDS]


def tested_config(name: str, registry: Path) -> Any:
    """Return a configuration of the tests."""
    method, *changes = KINDS.get(name, (name,))
    chosen = {field: value for field, value in values(method).items() if value is not None}
    chosen = json.loads(json.dumps(chosen).replace("REGISTRY", str(registry)))
    apply_changes(chosen, [change.replace("REGISTRY", str(registry)) for change in changes], name)
    return check_config(find_flow(method.split()[0]).config, chosen, name)


def compared_names() -> list[str]:
    """Return the names of all shipped comparisons."""
    names: list[str] = []
    for name in shipped(ROOT / "deployments" / "configs"):
        try:
            flow, _ = flow_and_file(name, None, flow_names())
        except ConfigError:
            continue
        if flow == "compare":
            names.append(name)
    return names


def compared_configs(name: str) -> dict[str, Any]:
    """Return the configuration of every cell of a comparison, of one seed."""
    _, file = flow_and_file(name, None, flow_names())
    comparison = load_config(CompareConfig, file, ["seeds=[0]"])
    return {cell.name: cell.config for cell in cells_of(comparison)}


# --- the record
def entry_of(config: Any) -> Any:
    """Return the entry of a configuration in the record, as plain JSON values."""
    if config.flow_name not in method_names():
        return plain({"flow": config.flow_name, "plan": audit_plan_of(config)})
    guarantee = guarantee_of(config)
    entry = {
        "flow": config.flow_name,
        "run_id": id_of(config),
        "charges": charges_of(guarantee),
        "shared_charge": shared_charge_of(config, guarantee),
        "plan": plan_of(config),
        "releases": released_by(config, guarantee),
    }
    return plain(entry)


def brief_entry_of(config: Any) -> dict[str, Any]:
    """Return the run id of a configuration, and a hash of its releases; without those of a training.

    To calibrate the trainings of all comparisons takes minutes, and their last digits differ between machines.
    """
    if config.method.tuning is not None:
        return {"run_id": id_of(config)}
    guarantee = guarantee_of(config)
    card = load_task(config.task)
    described = [
        (item.name, item.plan(), item.warnings(card), item.outcome()) for item in guarantee.releases
    ]
    return {"run_id": id_of(config), "releases": digest(plain([charges_of(guarantee), described]))}


def shipped_entry(name: str, registry: Path) -> Any:
    """Compute the entry of a shipped configuration."""
    return entry_of(shipped_config(name, registry))


def tested_entry(name: str, registry: Path) -> Any:
    """Compute the entry of a configuration of the tests."""
    return entry_of(tested_config(name, registry))


def compared_entry(name: str, _: Path) -> Any:
    """Compute the entry of a comparison: what identifies each cell, and its releases."""
    return {cell: brief_entry_of(config) for cell, config in compared_configs(name).items()}


@cache
def read(file: Path) -> dict[str, Any]:
    """Return the entries of a file of the record; none if it does not exist."""
    entries: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return entries


@dataclasses.dataclass(frozen=True)
class Group:
    """Configurations that are recorded in one file."""

    file: Path
    names: Callable[[], list[str]]
    entry: Callable[[str, Path], Any]

    def recorded(self) -> dict[str, Any]:
        """Return the entries of the record."""
        return read(self.file)


GROUPS = {
    "shipped": Group(SHIPPED, shipped_names, shipped_entry),
    "tested": Group(TESTED, tested_names, tested_entry),
    "compared": Group(COMPARED, compared_names, compared_entry),
}


def steps() -> dict[str, Any]:
    """Return the version of every step, and its keys for fixed inputs."""
    return {"versions": plain(versions_of_steps()), "keys": plain(keys_of_steps())}


@contextmanager
def bare_machine(folder: Path) -> Iterator[Path]:
    """Set a new state folder and no data; return a registry of parties."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    with mock.patch.dict(os.environ, {"WASP_HOME": str(home), "WASP_DATA": NO_DATA}):
        partition(
            RowsRef("builtin:support_desk/private.parquet"), folder / "parties", Partition(PARTIES)
        )
        yield folder / "parties" / "parties.yaml"


def plain(value: Any) -> Any:
    """Return a value as JSON has it; floats to their last bit, infinite ones as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    assert value is None or isinstance(value, str | int), value
    return value


def counted(values: Sequence[Any]) -> list[Any]:
    """Return values as JSON; equal ones in a row once, with their number."""
    return [{"times": len(list(equal)), **value} for value, equal in groupby(plain(values))]


def tolerance_of(entry: Mapping[str, Any]) -> float:
    """Return by how much numbers of an entry differ between machines, relative to their size.

    All are equal to the last bit but those of loss distributions, which are composed by Fourier transforms: their last
    digits depend on the processor and on the number of threads, and the noise of a training is searched for by them.
    """
    events = [charge["event"]["type"] for charge in entry.get("charges", [])]
    return TOLERANCE if set(events) & set(COMPOSED) else 0.0


def differences(recorded: Any, computed: Any, tolerance: float = 0.0, path: str = "") -> list[str]:
    """Return one line for each value that differs, with its path."""
    if isinstance(recorded, dict) and isinstance(computed, dict):
        lines = [
            f"{path}.{name}: only in the record"
            for name in sorted(recorded.keys() - computed.keys())
        ]
        lines += [
            f"{path}.{name}: not in the record"
            for name in sorted(computed.keys() - recorded.keys())
        ]
        pairs = {
            f"{path}.{name}": (recorded[name], computed[name])
            for name in recorded
            if name in computed
        }
    elif (
        isinstance(recorded, list) and isinstance(computed, list) and len(recorded) == len(computed)
    ):
        lines = []
        pairs = {
            f"{path}[{number}]": pair
            for number, pair in enumerate(zip(recorded, computed, strict=True))
        }
    elif isinstance(recorded, float) and isinstance(computed, float):
        return (
            []
            if math.isclose(recorded, computed, rel_tol=tolerance)
            else [f"{path}: {recorded!r} -> {computed!r}"]
        )
    else:
        is_equal = type(recorded) is type(computed) and recorded == computed
        return [] if is_equal else [f"{path}: {recorded!r} -> {computed!r}"]
    return lines + [
        line for where, pair in pairs.items() for line in differences(*pair, tolerance, where)
    ]


def record(file: Path, entries: Mapping[str, Any]) -> None:
    """Write entries to a file of the record; those that have not changed stay as they are, to the last digit."""
    stored = read(file)
    for name in stored.keys() & entries.keys():
        if not differences(stored[name], entries[name], tolerance_of(stored[name])):
            entries = {**entries, name: stored[name]}
    file.parent.mkdir(exist_ok=True)
    text = json.dumps(entries, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    file.write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    """Write the whole record."""
    with tempfile.TemporaryDirectory() as folder, bare_machine(Path(folder)) as registry:
        for group in GROUPS.values():
            record(group.file, {name: group.entry(name, registry) for name in group.names()})
    record(STEPS, steps())


if __name__ == "__main__":
    main()
