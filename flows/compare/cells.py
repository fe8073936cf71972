"""The cells of a comparison: one flow with one configuration each, known by content, so that none is run twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
from flows.catalog import find_flow
from flows.compare.config import Metric
from flows.config.base import RunConfig
from flows.config.execution import PACE
from flows.config.files import load_config
from flows.engine.method import FlowEntry
from flows.engine.usefulness import warnings_of_summary
from tasks.core.reuse import VERSIONS
from tasks.metrics.comparison import Answer

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from flows.compare.config import Changes, Column, CompareConfig, Row

SHIPPED = Path(__file__).parents[2] / "deployments" / "configs"
METRICS = get_args(Metric)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the matrix: its row, column and seed, its flow and whole configuration.

    `key`: content of the cell when the matrix was read: configuration, files that it names, versions of the steps.
    """

    row: str
    column: str
    seed: int
    flow: str
    config: RunConfig
    key: str

    @property
    def name(self) -> str:
        """The cell in a few words."""
        return f"{self.row} · {self.column} · seed {self.seed}"

    @property
    def entry(self) -> FlowEntry:
        """The flow that carries it out."""
        return find_flow(self.flow)


def cells_of(config: CompareConfig) -> list[Cell]:
    """Return the matrix, row by row; ConfigError names the row and column whose configuration is wrong."""
    return [
        _cell(config, row, column, seed) for row in config.rows for column in config.columns for seed in config.seeds
    ]


def sorted_out(artifacts: Artifacts, cells: Sequence[Cell]) -> tuple[dict[str, Answer], list[Cell]]:
    """Return by key what was carried out before, and the cells that are open, each content once."""
    once = {cell.key: cell for cell in cells}
    found = {key: kept(artifacts, cell) for key, cell in once.items()}
    known = {key: one for key, one in found.items() if one is not None}
    return known, [cell for key, cell in once.items() if key not in known]


def kept(artifacts: Artifacts, cell: Cell) -> Answer | None:
    """Return the answer of a cell that was carried out before and whose run is still there and whole."""
    run_id = artifacts.read_text(_place(cell))
    text = artifacts.read_text(f"runs/{run_id}/summary.json") if run_id else None
    if text is None:
        return None
    summary = json.loads(text)
    return answer(cell, summary, reused=True) if summary["state"] == "done" else None


def keep(artifacts: Artifacts, cell: Cell, run_id: str) -> None:
    """Write down which run carried a cell out."""
    artifacts.write_text(_place(cell), run_id)


def seen_from(cell: Cell, found: Answer) -> Answer:
    """Return the answer of an equal cell as this cell's own: a setting may mean nothing to a method."""
    return replace(found, row=cell.row, column=cell.column, seed=cell.seed)


def answer(cell: Cell, summary: Mapping[str, Any], reused: bool = False) -> Answer:
    """Return what the summary of a cell's run says."""
    curve = [{metric: one.get(metric) for metric in METRICS} for one in summary.get("iterations", ())]
    return Answer(
        row=cell.row,
        column=cell.column,
        seed=cell.seed,
        state="degraded" if summary.get("degraded") else str(summary["state"]),
        values={metric: summary.get(metric) for metric in METRICS},
        curve=curve,
        run_id=str(summary["run_id"]),
        seconds=float(summary.get("seconds") or 0.0),
        epsilon=summary.get("epsilon_spent"),
        added=summary.get("epsilon_added"),
        not_private=bool(summary.get("not_private")),
        dollars=float(summary.get("dollars") or 0.0),
        dollars_estimated=float(summary.get("dollars_estimated") or 0.0),
        reused=reused,
        warnings=tuple(warnings_of_summary(summary)),
    )


def failed(cell: Cell, error: Exception) -> Answer:
    """Return the answer of a cell that came to no end; the others go on."""
    words = str(error) or type(error).__name__
    return Answer(cell.row, cell.column, cell.seed, "failed", {}, error=words)


def _cell(config: CompareConfig, row: Row, column: Column, seed: int) -> Cell:
    shared = {**config.set, **column.set}
    changes = {field: value for field, value in shared.items() if field not in row.ignores}
    changes |= {**row.set, "execution.seed": seed}
    changes |= {field: seed for field in config.seeded if field not in row.ignores}
    try:
        loaded = load_config(find_flow(row.flow).config, _file(row.config), _written(changes))
    except ConfigError as error:
        raise ConfigError(f"rows '{row.name}', columns '{column.name}': {error}") from None
    tracking = config.tracking.model_copy(update={"experiment": config.tracking.experiment or config.title})
    found: RunConfig = loaded.model_copy(update={"tracking": tracking})  # type: ignore[assignment]
    return Cell(row.name, column.name, seed, row.flow, found, _key(row.flow, found))


def _key(flow: str, config: RunConfig) -> str:
    settings = config.model_dump(mode="json", exclude={"tracking": True, "limits": True, "execution": PACE})
    return digest([flow, settings, _stamps(config), dict(VERSIONS)])


def _written(changes: Changes) -> list[str]:
    """Return changes as `--set` takes them: JSON is YAML."""
    return [f"{field}={json.dumps(value)}" for field, value in changes.items()]


def _file(named: str) -> Path:
    for place in (Path(named), SHIPPED / named):
        if place.is_file():
            return place
    raise ConfigError(f"config: there is no file {named}, neither here nor below deployments/configs")


def _stamps(config: RunConfig) -> list[list[Any]]:
    """Return size and time of every file that the configuration names: changed rows make another cell."""
    from flows.config.paths import place

    rows = [one.path for one in (config.private, config.test, config.public) if one is not None]
    names = [*rows, config.task, *(plm.model or "" for plm in config.models)]
    files = [Path(place(name, config.data_root)).expanduser() for name in names if name]
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files if file.is_file()]


def _place(cell: Cell) -> str:
    return f"compare/{cell.key}.txt"
