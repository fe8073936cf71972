"""Checks of all open cells of a comparison, before its plan is shown and before its first cell starts.

Cells share models and rows: each is checked once, and a problem is reported once with the cells that have it.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from connectors.interfaces.counts import sized
from connectors.interfaces.errors import ConfigError, WaspError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import ModelSize
from connectors.models.base.registry import measure_model
from flows.compare.cells import Cell, cells_of, split_cells
from flows.compare.config import CompareConfig
from flows.compare.partitions import plannable, registry_of, require_partition, rows_of
from flows.config.base import AnyConfig
from flows.config.models import Plm
from flows.config.paths import model_spec
from flows.engine.checks import (
    Memo,
    check_divided_rows,
    errors_of,
    is_refused,
    problems_of,
    raise_problems,
    unchecked,
)
from flows.engine.datasets import with_declared_rows
from flows.engine.prepare import checked_numbers
from flows.federation.local_parties import WITHOUT_PARTIES
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts
from flows.runtime.terminal_progress import display


@dataclass(frozen=True, slots=True)
class Preflight:
    """Results of the checks of some cells.

    `by_cell`: problems of each cell, by its key. `unchecked`: what could not be checked. `needs`: downloads and memory.
    """

    cells: Sequence[Cell]
    by_cell: dict[str, list[str]] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)
    needs: Json = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """Each problem once, with the first row and column that has it and the number of others."""
        where: dict[str, dict[tuple[str, str], None]] = {}
        for cell in self.cells:
            for problem in self.by_cell.get(cell.key, ()):
                where.setdefault(problem, {})[cell.row, cell.column] = None
        return [f"{_described(list(places))}: {problem}" for problem, places in where.items()]

    @property
    def failing(self) -> int:
        """Number of cells with a problem."""
        return sum(bool(self.by_cell.get(cell.key)) for cell in self.cells)


def inspect_cells(config: CompareConfig, cells: Sequence[Cell]) -> Preflight:
    """Check the open cells of a comparison: rows, parties, models, packages, disk and memory."""
    memo = Memo()
    sizes = _Sizes(memo)
    preflight = Preflight(cells)
    for cell in cells:
        errors = problems_of(cell.config, state_folder(), memo)
        errors += _problems_of_parties(config, cell, memo)
        errors += errors_of(partial(_check_numbers, config, cell))
        problems = list(dict.fromkeys(str(error) for error in errors))
        preflight.by_cell[cell.key] = problems + _problems_of_memory(cell.config, sizes)
    preflight.unchecked.extend(unchecked(memo))
    downloads = _downloads(preflight, sizes)
    preflight.needs.update(downloads=downloads, memory=_memory(cells, sizes))
    if downloads is not None and downloads["bytes"] > downloads["free"]:
        problem = (
            f"disk: models of {sized(downloads['bytes'])} must be downloaded, and {downloads['folder']} has "
            f"{sized(downloads['free'])} free. Free space, or set HF_HOME to a folder of a larger disk."
        )
        for cell in cells:
            if any(size.download for _, size in sizes.of(cell.config)):
                preflight.by_cell[cell.key].append(problem)
    return preflight


def checked_cells(_: str, config: CompareConfig, __: str | None = None) -> list[Cell]:
    """Return the matrix of a comparison that can run; ConfigError for another one. The checks of a flow entry.

    Problems of some open cells are shown; their runs will fail without a charge. Those of all open cells are raised.
    """
    cells = cells_of(config)
    if config.local_parties is not None and not any(cell.config.parties for cell in cells):
        raise ConfigError(WITHOUT_PARTIES)
    artifacts = open_artifacts(state_folder())
    artifacts.check()
    preflight = inspect_cells(config, split_cells(artifacts, cells)[1])
    if preflight.failing and preflight.failing == len(preflight.cells):
        raise_problems([ConfigError(problem) for problem in preflight.problems])
    for problem in preflight.problems:
        display().say(f"warning: this cell will fail: {problem}")
    for line in preflight.unchecked:
        display().say(f"warning: {line}")
    return cells


def _described(places: Sequence[tuple[str, str]]) -> str:
    row, column = places[0]
    more = ""
    if len(places) > 1:
        more = f" and {len(places) - 1} more"
    return f"rows '{row}', columns '{column}'{more}"


def _check_numbers(config: CompareConfig, cell: Cell) -> None:
    """Raise ConfigError for numbers that cannot work; missing folders of parties are stated once, elsewhere."""
    registry = registry_of(cell.config)
    if registry is not None and not registry.exists() and config.local_parties is None:
        return
    with plannable(cell.config, config.local_parties) as plan_config:
        checked_numbers(with_declared_rows(plan_config, state_folder()))


# --- parties
def _problems_of_parties(config: CompareConfig, cell: Cell, memo: Memo) -> list[WaspError]:
    """Return why the parties of a federated cell cannot start; a folder that will be made is no problem."""
    registry = registry_of(cell.config)
    if registry is None:
        return []
    number = config.local_parties
    errors = errors_of(partial(require_partition, cell.config, cell.partition, number))
    if errors or cell.partition is None or registry.exists():
        return errors
    where = rows_of(cell.partition, cell.config, seed=0)
    key = repr(where)
    if key not in memo:
        memo[key] = errors_of(partial(check_divided_rows, where, state_folder()))
    return memo[key]


# --- disk and memory
class _Sizes:
    """Sizes of language models, each asked for once; those that a check refused have none."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._known: dict[str, ModelSize | None] = {}

    def of(self, config: AnyConfig) -> list[tuple[Plm, ModelSize]]:
        """Return the models of a configuration whose size is known."""
        sizes = [(plm, self._size(plm, config.data_root)) for plm in config.models]
        return [(plm, size) for plm, size in sizes if size is not None]

    def _size(self, plm: Plm, root: str | None) -> ModelSize | None:
        if is_refused(plm, root, self._memo):
            return None
        spec = model_spec(plm, root, state_folder())
        key = repr((spec.connector, spec.model, spec.options))
        if key not in self._known:
            self._known[key] = measure_model(spec)
        return self._known[key]


def _problems_of_memory(config: AnyConfig, sizes: _Sizes) -> list[str]:
    """Return a problem for each model whose weights alone exceed the memory of its device."""
    return [
        f"Model '{plm.name}': its weights need {sized(size.memory)} of memory, and the device '{size.device}' has "
        f"{sized(size.available)}. Use a larger machine, a smaller model or an endpoint."
        for plm, size in sizes.of(config)
        if size.memory > size.available
    ]


def _downloads(preflight: Preflight, sizes: _Sizes) -> Json | None:
    """Return number and bytes of the models to download, which are gated, and the room; None if all are here."""
    missing: dict[str, int] = {}
    gated: dict[str, None] = {}
    for cell in preflight.cells:
        for plm, size in sizes.of(cell.config):
            if size.download:
                missing[plm.model] = size.download
            if size.gated:
                gated[plm.name] = None
    for model in _further_models(preflight):
        missing[model] = _download_size(model)
    missing = {model: size for model, size in missing.items() if size}
    if not missing:
        return None
    folder = _hub_folder()
    return {
        "models": len(missing),
        "bytes": sum(missing.values()),
        "gated": list(gated),
        "folder": str(folder),
        "free": _free(folder),
    }


def _further_models(preflight: Preflight) -> list[str]:
    """Return the encoders and the base models of classifiers that no check refused."""
    models: dict[str, None] = {}
    for cell in preflight.cells:
        if cell.config.embedder.connector == "sentence_transformers":
            models[cell.config.embedder.model] = None
        for _, kind, model in cell.config.students:
            if kind == "finetune":
                models[model] = None
    problems = " ".join(problem for of_cell in preflight.by_cell.values() for problem in of_cell)
    return [model for model in models if f"'{model}'" not in problems]


def _download_size(model: str) -> int:
    from connectors.models.transformers.model_sizes import download_size

    return download_size(model)


def _hub_folder() -> Path:
    from connectors.models.transformers.model_sizes import hub_folder

    return hub_folder()


def _free(folder: Path) -> int:
    """Return the free bytes of the disk of a folder, which need not exist."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def _memory(cells: Sequence[Cell], sizes: _Sizes) -> Json | None:
    """Return the largest memory that the models of one cell need at a time; None if no model runs on this machine."""
    largest: Json | None = None
    for cell in cells:
        loaded = sizes.of(cell.config)
        if not loaded:
            continue
        staying = sum(size.memory for _, size in loaded if size.stays)
        leaving = max((size.memory for _, size in loaded if not size.stays), default=0)
        if largest is None or staying + leaving > largest["bytes"]:
            biggest, size = max(loaded, key=lambda entry: entry[1].memory)
            largest = {
                "bytes": staying + leaving,
                "model": biggest.name,
                "device": size.device,
                "available": size.available,
            }
    return largest
