"""Cells of a comparison, identified by content to reuse results."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.artifacts.store import Artifacts
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from flows.catalog import find_method
from flows.compare.config import Column, CompareConfig, PartitionChoice, Row
from flows.config.base import RunConfig
from flows.config.execution import PACE
from flows.config.extends import is_config
from flows.config.files import load_config
from flows.config.paths import resolve_path
from flows.config.task_files import load_task
from flows.engine.datasets import view_of
from flows.engine.run_identity import settings_by_name
from flows.engine.server import find_permitted_config, require_addresses
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_ledger
from tasks.metrics.comparison import CellResult
from tasks.metrics.registry import METRICS, added_versions, compared_names
from tasks.reporting.run_summary import RunSummary, shared_values
from tasks.steps.reuse import all_versions
from tasks.students.heads import fit_parameters


@dataclass(frozen=True, slots=True)
class Cell:
    """A run of the matrix: row, column, seed, flow and complete configuration.

    Attributes:
        key: hash of configuration, input file stamps and step versions when the matrix was read.
        settings: hash of what determines its result, without input files and step versions; equal on every machine.
        partition: rows to divide among the parties if they have no folder; not part of the key, as the rows in a
            folder are not.
    """

    row: str
    column: str
    seed: int
    flow: str
    config: RunConfig
    key: str
    settings: str
    partition: PartitionChoice | None = None

    @property
    def name(self) -> str:
        """Display name of the cell."""
        return f"{self.row} · {self.column} · seed {self.seed}"

    @property
    def labels(self) -> Json:
        """Row, column and seed, which name the cell in the tables."""
        return {"row": self.row, "column": self.column, "seed": self.seed}


def cells_of(config: CompareConfig) -> list[Cell]:
    """Return the matrix, row by row.

    ConfigError names the row and column of an invalid configuration.
    """
    require_addresses(config)
    return [
        _cell(config, row, column, seed)
        for row in config.rows
        for column in config.columns
        for seed in config.seeds
    ]


def comparison_id(config: CompareConfig, cells: Sequence[Cell]) -> str:
    """Return the run id of a comparison with these cells."""
    content = digest([config.title, config.rows[0].name, *(cell.key for cell in cells)])
    return f"compare-{title_slug(config.title)}-{content[:10]}"


def title_slug(title: str) -> str:
    """Return the title of a comparison as part of a name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "table"


def split_cells(
    artifacts: Artifacts, cells: Sequence[Cell]
) -> tuple[dict[str, CellResult], list[Cell]]:
    """Return stored answers by cell key, and the open cells without duplicates."""
    unique = {cell.key: cell for cell in cells}
    loaded = {key: load_answer(artifacts, cell) for key, cell in unique.items()}
    answers = {key: stored for key, stored in loaded.items() if stored is not None}
    return answers, [cell for key, cell in unique.items() if key not in answers]


def load_answer(artifacts: Artifacts, cell: Cell) -> CellResult | None:
    """Return the stored answer of a finished cell.

    None if its run does not exist or is incomplete.
    """
    run_id = artifacts.read_text(_pointer(cell))
    if not run_id:
        return None
    text = artifacts.read_text(f"runs/{run_id}/summary.json")
    # The run was removed; its cell runs again, without a charge while the ledger has its releases.
    if text is None:
        return None
    summary = RunSummary.from_json(json.loads(text))
    if summary.state != "done":
        return None
    return answer(cell, summary, reused=True)


def steps_digest() -> str:
    """Return a hash of the versions of all steps and shipped metrics, which decide whether a cell is computed again."""
    # Not those of installed packages: their metrics change no value of another one.
    shipped = {metric.name for metric in METRICS}
    metrics = {name: number for name, number in added_versions().items() if name in shipped}
    return digest(_step_versions() | metrics)


def store_run_id(artifacts: Artifacts, cell: Cell, run_id: str) -> None:
    """Store the id of the run of a finished cell."""
    artifacts.write_text(_pointer(cell), run_id)


def answer(cell: Cell, summary: RunSummary, reused: bool = False) -> CellResult:
    """Return the answer of a cell from the summary of its run."""
    metrics = compared_names()
    own: Json = {
        "state": "degraded" if summary.is_incomplete else summary.state,
        "values": {metric: summary.metrics.get(metric) for metric in metrics},
        "curve": [
            {metric: iteration.get(metric) for metric in metrics}
            for iteration in summary.iterations
        ],
        "epsilon": summary.epsilon_spent,
        "added": summary.epsilon_added,
        "reused": reused,
        "warnings": [*summary.problems, *summary.usefulness_warnings],
    }
    return CellResult(**(shared_values(summary, CellResult) | cell.labels | own))


def failed(cell: Cell, error: Exception) -> CellResult:
    """Return the answer of a failed cell."""
    message = str(error) or type(error).__name__
    return CellResult(**cell.labels, state="failed", values={}, error=message)


def _cell(config: CompareConfig, row: Row, column: Column, seed: int) -> Cell:
    shared = {**config.set, **column.set}
    changes = {field: value for field, value in shared.items() if field not in row.ignores}
    # A row has precedence over its column, and the seed of the cell over all.
    changes |= {**row.set, "execution.seed": seed}
    changes = {field: _with_seed(value, seed) for field, value in changes.items()}
    try:
        # JSON values are valid YAML.
        options = [f"{field}={json.dumps(value)}" for field, value in changes.items()]
        loaded = load_config(find_method(row.flow).config, _file(row.config), options)
        require_addresses(loaded)
    except ConfigError as error:
        raise ConfigError(f"rows '{row.name}', columns '{column.name}': {error}") from None
    # All cells are in the experiment of the comparison.
    experiment = config.tracking.experiment or config.title
    tracking = config.tracking.model_copy(update={"experiment": experiment})
    tracked: RunConfig = loaded.model_copy(update={"tracking": tracking})  # type: ignore[assignment]
    key = _key(row.flow, tracked)
    settings = _settings_digest(config, column, row.flow, tracked)
    return Cell(row.name, column.name, seed, row.flow, tracked, key, settings, column.partition)


def _key(flow: str, config: RunConfig) -> str:
    # Settings that change no result are left out: such a change reuses the cell.
    settings = config.model_dump(
        mode="json", exclude={"tracking": True, "limits": True, "execution": PACE}
    )
    parts = [flow, settings, _stamps(config), _step_versions() | added_versions()]
    # Only with fits that differ from those of earlier versions: other cells keep their keys.
    if fit := fit_parameters(len(load_task(config.task).labels), config.labels_texts):
        parts.append(fit)
    # Earlier versions wrote such texts without topics.
    if config.finds_topics:
        parts.append("topics")
    return digest(parts)


def _step_versions() -> dict[str, int]:
    # A new kind of key begins at version 0: a step that a cell does not have must not change its key.
    return {kind: version for kind, version in all_versions().items() if version}


def _settings_digest(config: CompareConfig, column: Column, flow: str, own: RunConfig) -> str:
    settings = _without_nulls(settings_by_name(own))
    if own.parties is None:
        return digest([flow, settings])
    # The rows and the number of the parties are in no configuration of a run.
    partition = column.partition.model_dump(mode="json") if column.partition else None
    return digest([flow, settings, _without_nulls(partition), config.local_parties])


def _without_nulls(value: object) -> object:
    """Return JSON values without empty fields: a new optional field must not change the settings of stored cells."""
    if isinstance(value, dict):
        filled = {name: entry for name, entry in value.items() if entry is not None}
        return {name: _without_nulls(entry) for name, entry in filled.items()}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value


def _with_seed(value: object, seed: int) -> object:
    if not isinstance(value, str):
        return value
    return value.replace("{seed}", str(seed))


def _file(name: str) -> Path:
    if is_config(file := find_permitted_config("config", name)):
        return file
    raise ConfigError(
        f"config: there is no file {name}, neither here nor in deployments/configs. Correct the path."
    )


def _stamps(config: RunConfig) -> list[list[str | int]]:
    """Return size and time of every input file: changed rows make another cell."""
    # Not their hashes: private rows are read by the steps of a run alone.
    tables = (config.private, config.test, config.public, config.public_corpus)
    paths = [rows.path for rows in tables if rows is not None]
    if config.private is not None and config.private.dataset is not None:
        paths.append(view_of(open_ledger(state_folder()), config.private.dataset).path)
    names = [*paths, config.task, *(plm.model or "" for plm in config.models)]
    files = [Path(resolve_path(name, config.data_root)).expanduser() for name in names if name]
    return [
        [file.name, file.stat().st_size, file.stat().st_mtime_ns]
        for file in files
        if file.is_file()
    ]


def _pointer(cell: Cell) -> str:
    return f"compare/{cell.key}.txt"
