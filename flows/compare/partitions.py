"""Folders of the parties of federated cells: made on demand, and not needed for a plan.

A plan needs the number of parties alone. A comparison with `local_parties` divides the rows of a column's `partition`
when the first cell of a folder starts, with the seed of that cell.
"""

import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.rows import RowsRef
from connectors.models.base.processes import is_running, process_name
from connectors.security.signing import open_signing_key, public_line, public_pem
from flows.compare.config import PartitionChoice
from flows.config.base import AnyConfig
from flows.config.paths import resolve_path
from flows.engine.parties import read_registry
from flows.federation.local_parties import EXAMPLES, PARTY_FILE, REGISTRY, partition
from flows.runtime.state_folder import COORDINATOR_KEY, has_key, state_folder
from flows.runtime.terminal_progress import display
from tasks.private.parties.partition import Partition

SETTINGS = "partition.yaml"
"""File in a folder of parties that a comparison made: the settings that it was made with."""
UNFINISHED = ".unfinished-"
_ONE_AT_A_TIME = threading.Lock()
"""Cells of one process, which run in threads, share folders."""


def registry_of(config: AnyConfig) -> Path | None:
    """Return the file of the parties' keys of a federated configuration, None without parties."""
    if config.parties is None:
        return None
    return Path(resolve_path(config.parties.registry, config.data_root)).expanduser().absolute()


def rows_of(choice: PartitionChoice, config: AnyConfig, seed: int) -> RowsRef:
    """Return the reference to the rows that are divided with a seed."""
    return RowsRef(
        resolve_path(choice.path, config.data_root),
        choice.text,
        choice.label,
        person=choice.person,
        rows=choice.take,
        seed=seed,
        class_alpha=choice.class_alpha,
    )


def _missing(registry: Path) -> ConfigError:
    return ConfigError(
        f"parties.registry: {registry} does not exist. Add --local-parties N for parties on this machine, or write the "
        f"folders: wasp partition ROWS {registry.parent} --parties N"
    )


@contextmanager
def plannable(config: AnyConfig, number: int | None) -> Iterator[AnyConfig]:
    """Yield a configuration that can be planned although its parties have no folder yet.

    Its registry has `number` new keys, which no party has. Raises ConfigError for missing folders without a number.
    """
    registry = registry_of(config)
    if registry is None or registry.exists():
        yield config
        return
    if number is None:
        raise _missing(registry)
    with TemporaryDirectory(prefix="wasp-plan-") as folder:
        path = Path(folder) / REGISTRY
        path.write_text(_made_up_registry(number), encoding="utf-8")
        parties = config.parties.model_copy(update={"registry": str(path)})  # type: ignore[union-attr]
        yield config.model_copy(update={"parties": parties})


def require_partition(
    config: AnyConfig, choice: PartitionChoice | None, number: int | None
) -> None:
    """Raise ConfigError for a federated configuration without a folder of parties that nothing makes on demand.

    `number`: of parties that the comparison starts; None if they run elsewhere.
    """
    registry = registry_of(config)
    if registry is None:
        return
    if registry.exists():
        _require_equal(registry.parent, config, choice)
        if number is not None:
            _require_own(registry)
    elif number is None:
        raise _missing(registry)
    elif registry.name != REGISTRY:
        raise ConfigError(
            f"parties.registry: {registry} does not exist, and that of a new folder is {REGISTRY}. Correct the name."
        )
    elif choice is None and config.task not in EXAMPLES:
        raise ConfigError(
            f"{registry.parent} has no parties. Name the rows to divide in `partition` of the column, or write the "
            f"folders: wasp partition ROWS {registry.parent} --parties {number}"
        )


def make_partition(
    config: AnyConfig, choice: PartitionChoice | None, number: int, seed: int
) -> None:
    """Divide the rows of a column among `number` parties, unless the folder of the configuration exists.

    The folder appears complete or not at all; of two processes, the second uses the folder of the first.
    """
    registry = registry_of(config)
    if registry is None or choice is None:
        return
    with _ONE_AT_A_TIME:
        require_partition(config, choice, number)
        if not registry.exists():
            _divide(config, choice, number, seed, registry)


def _divide(
    config: AnyConfig, choice: PartitionChoice, number: int, seed: int, registry: Path
) -> None:
    folder = registry.parent
    assert config.parties is not None, "a configuration with a registry has parties"
    settings = Partition(
        number,
        alpha=choice.alpha,
        seed=seed,
        epsilon=choice.epsilon,
        embedder=f"{config.embedder.connector}:{config.embedder.model}",
        colluding=config.parties.colluding,
    )
    _remove_unfinished(folder)
    unfinished = folder.with_name(f"{UNFINISHED}{folder.name}-{process_name()}")
    try:
        partition(rows_of(choice, config, seed), unfinished, settings)
        _set_embedder(unfinished, config)
        (unfinished / SETTINGS).write_text(
            yaml.safe_dump(_settings(config, choice)), encoding="utf-8"
        )
        unfinished.rename(folder)
    except OSError as error:
        # Another process may have made the folder meanwhile.
        if not registry.exists():
            raise ConfigError(
                f"{folder}: the folder of the parties cannot be written ({error.strerror}). Remove what is there, or "
                "name another folder in parties.registry."
            ) from error
    else:
        display().say(f"{folder}: {choice.path}, divided among {number} parties")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left of this folder."""
    for rest in folder.parent.glob(f"{UNFINISHED}{folder.name}-*"):
        owner = rest.name.removeprefix(f"{UNFINISHED}{folder.name}-")
        # None: of another machine, where it may be at work.
        if is_running(owner) is False:
            shutil.rmtree(rest, ignore_errors=True)


def _require_equal(folder: Path, config: AnyConfig, choice: PartitionChoice | None) -> None:
    """Raise ConfigError if a comparison made a folder of parties with other settings."""
    file = folder / SETTINGS
    if choice is None or not file.exists():
        return
    before = yaml.safe_load(file.read_text(encoding="utf-8"))
    now = _settings(config, choice)
    changed = sorted(name for name in now if before.get(name) != now[name])
    if changed:
        name = changed[0]
        raise ConfigError(
            f"partition: {folder} was divided with {name} {before.get(name)!r}, not {now[name]!r}. Name another folder "
            f"in parties.registry and parties.exchange, or restore {name}."
        )


def _require_own(registry: Path) -> None:
    """Raise ConfigError for parties on this machine that accept the plans of another state folder alone."""
    home = state_folder()
    _, coordinator = read_registry(registry)
    # A plan makes no key.
    if (
        has_key(home, COORDINATOR_KEY)
        and public_pem(open_signing_key(home, COORDINATOR_KEY)) == coordinator
    ):
        return
    raise ConfigError(
        f"parties.registry: the parties of {registry} belong to another state folder than {home} and would refuse its "
        f"plans. Set WASP_HOME to that folder, or move {registry.parent} away: the rows are then divided again."
    )


def _settings(config: AnyConfig, choice: PartitionChoice) -> Json:
    return choice.model_dump(mode="json") | {"embedder": config.embedder.model_dump(mode="json")}


def _set_embedder(folder: Path, config: AnyConfig) -> None:
    """Write the embedder with its options into the files of new parties, which refuse the rounds of another one."""
    for file in folder.glob(f"*/{PARTY_FILE}"):
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        values["embedder"] = config.embedder.model_dump(mode="json", exclude_none=True)
        text = yaml.safe_dump(values, sort_keys=False, default_flow_style=None)
        file.write_text(text, encoding="utf-8")


@cache
def _made_up_registry(number: int) -> str:
    lines = (
        f"party-{position}: {public_line(secrets.token_bytes(32))}\n"
        for position in range(1, number + 1)
    )
    return "".join(lines)
