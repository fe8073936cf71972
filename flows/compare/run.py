"""State of one comparison: open cells, manifest and results."""

from __future__ import annotations

import gc
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from prefect import runtime

from connectors.interfaces import cancellation
from connectors.interfaces.counts import counted
from connectors.interfaces.json_values import Json
from connectors.interfaces.memory import return_memory
from flows.catalog import find_flow
from flows.compare.cell_claims import claim_cell, is_claimed
from flows.compare.cells import (
    Cell,
    answer,
    comparison_id,
    failed,
    load_answer,
    split_cells,
    store_run_id,
    title_slug,
)
from flows.compare.config import CompareConfig
from flows.compare.partitions import make_partition
from flows.compare.preflight import checked_cells
from flows.compare.values import comparison_of, summary_of
from flows.engine.tracking import PARENT, page_url
from flows.federation.local_parties import local_parties
from flows.runtime.failure import ErrorContext, explained_errors
from flows.runtime.flow_runs import reported_end
from flows.runtime.handover import take
from flows.runtime.manifest import RunManifest, now, recorded
from flows.runtime.state_folder import check_room, state_folder
from flows.runtime.stores import open_artifacts, open_tracked
from flows.runtime.terminal_progress import display
from tasks.metrics.comparison import CellResult, is_unnoised, mean_of
from tasks.prefect.runtime import task_step
from tasks.reporting.compare_plots import drawings
from tasks.reporting.compare_report import markdown, page
from tasks.reporting.compare_results import NOT_PRIVATE, Comparison
from tasks.reporting.run_summary import RunSummary


def compare_name() -> str:
    """Return the name of a flow run from its title."""
    values = runtime.flow_run.parameters["config"]
    # Prefect passes the parameters of a served flow as plain values.
    title = values["title"] if isinstance(values, dict) else values.title
    return f"compare-{title_slug(title)}"


POLL_SECONDS = 1.0
"""Time between two looks at the cells of other processes."""


@task_step("cell {cell.name}", retries=0)
def run_cell(run: CompareRun, cell: Cell) -> CellResult | None:
    """Run one cell as a sub-flow; an error becomes its answer. None if another process runs it."""
    return run.run_cell(cell)


class CompareRun:
    """Cells, manifest and tracker of one comparison."""

    def __init__(self, config: CompareConfig, cells: Sequence[Cell], manifest: RunManifest) -> None:
        self.config = config
        self.cells = tuple(cells)
        self.manifest = manifest
        self.artifacts = manifest.artifacts
        self.run_id = manifest.values["run_id"]
        self.started = time.monotonic()
        self.answers, self.open = split_cells(manifest.artifacts, cells)
        self._was_started = False
        self.tables = ""
        self.tracker = open_tracked(manifest.artifacts.home, self.run_id, config.tracking.mlflow)

    def begin(self) -> None:
        """Record the start of the comparison in the tracker."""
        config = self.config
        seeds = ",".join(map(str, self.config.seeds))
        size = {"rows": len(config.rows), "columns": len(config.columns), "seeds": seeds}
        self.tracker.start(
            config.tracking.experiment or config.title, self.run_id, self._tags(), size
        )
        self.manifest.update(mlflow_run_id=self.tracker.mlflow_run_id)
        display().say(f"{len(self.cells)} cells: {len(self.open)} to run, the others are reused")

    def next_cells(self) -> list[Cell]:
        """Return the cells without an answer: first all, then those that other processes gave up.

        Waits while other processes run all of them; empty if every cell has an answer.
        """
        if self._was_started:
            return self._wait_for_others()
        self._was_started = True
        return self.open

    def add_answers(self, cells: Sequence[Cell], completed: Sequence[CellResult | None]) -> None:
        """Add the answers of some cells; None for a cell of another process."""
        for cell, result in zip(cells, completed, strict=True):
            if result is not None:
                self.answers[cell.key] = result

    def _wait_for_others(self) -> list[Cell]:
        waiting = [cell for cell in self.open if cell.key not in self.answers]
        if waiting:
            display().say(
                f"{counted(len(waiting), 'cell')} in other processes: waiting for their results"
            )
        while waiting:
            # Before the results: a process that ends meanwhile has stored its own.
            free = {cell.key for cell in waiting if not is_claimed(self.artifacts.home, cell.key)}
            finished = {cell.key: load_answer(self.artifacts, cell) for cell in waiting}
            self.answers |= {key: stored for key, stored in finished.items() if stored is not None}
            waiting = [cell for cell in waiting if cell.key not in self.answers]
            given_up = [cell for cell in waiting if cell.key in free]
            if given_up:
                return given_up
            cancellation.raise_if_stopped()
            time.sleep(POLL_SECONDS)
        return []

    def run_cell(self, cell: Cell) -> CellResult | None:
        """Run the flow of a cell; an error fails only this cell. None if another process runs it."""
        with claim_cell(self.artifacts.home, cell.key) as is_mine:
            if not is_mine:
                return None
            # Another process may have finished it since the matrix was read.
            stored = load_answer(self.artifacts, cell)
            if stored is not None:
                return stored
            return self._run_claimed(cell)

    def _run_claimed(self, cell: Cell) -> CellResult:
        flow: Any = find_flow(cell.flow).flow()
        # The run of the cell reads it, and becomes a child of the comparison in MLflow.
        parent = PARENT.set(self.tracker.mlflow_run_id)
        display().say(f"cell started  {cell.name}")
        try:
            with self._parties(cell):
                values = flow(cell.config)
        except Exception as error:  # noqa: BLE001  (the table reports the error; other cells continue)
            cancellation.raise_if_stopped()
            display().say(f"cell failed   {cell.name}: {error}")
            return failed(cell, error)
        finally:
            PARENT.reset(parent)
            # What a run leaves refers to itself, about 100 MB per cell.
            gc.collect()
            return_memory()
        summary = RunSummary.from_json(values)
        # A cell whose model was down is in the tables but runs again the next time. Answers of another form than
        # requested are stored, and would be the same.
        if summary.state == "done" and not summary.is_incomplete:
            store_run_id(self.artifacts, cell, summary.run_id)
        return answer(cell, summary)

    def _parties(self, cell: Cell) -> AbstractContextManager[None]:
        """Return a context in which the parties of a federated cell run."""
        number = self.config.local_parties
        if number is None or cell.config.parties is None:
            return nullcontext()
        make_partition(cell.config, cell.partition, number, cell.seed)
        return local_parties(cell.config, number)

    def finish(self) -> Json:
        """Write and track tables and plots.

        Return the summary, which includes failed cells.
        """
        # Cells with equal configurations share one run, but each has its own row in the tables.
        answers = [replace(self.answers[cell.key], **cell.labels) for cell in self.cells]
        folder = f"runs/{self.run_id}"
        # A comparison without new cells keeps its time, and its tables do not change.
        made = self._made_before(folder) or now()
        comparison = comparison_of(self.config, answers, made)
        self.tables = markdown(comparison)
        self.artifacts.write_text(f"{folder}/table.md", self.tables)
        self.artifacts.write_text(f"{folder}/table.html", page(comparison))
        files = {"table.html": "table.html"}
        for name, picture in drawings(comparison, "png").items():
            self.artifacts.write_bytes(f"{folder}/{name}.png", picture)
            files[f"plots/{name}.png"] = f"{name}.png"
        summary = summary_of(comparison, self.run_id, self.artifacts.where(folder))
        summary |= {
            "made": comparison.made,
            "tables": self.tables,
            "seconds": round(time.monotonic() - self.started, 1),
            "prefect_run_id": self.manifest.values["prefect_run_id"],
        }
        self.artifacts.write_text(
            f"{folder}/summary.json", json.dumps(summary, indent=2, allow_nan=False)
        )
        self.tracker.metrics(_means(comparison), files=files, note=self.tables, status="FINISHED")
        self.manifest.update(state=summary["state"], ended=now(), error=None)
        return summary

    def _made_before(self, folder: str) -> str | None:
        """Return the time of the stored tables if all cells are reused, else None."""
        if self.open:
            return None
        stored = self.artifacts.read_text(f"{folder}/summary.json")
        if not stored:
            return None
        made: str | None = json.loads(stored).get("made")
        return made

    def _tags(self) -> dict[str, str]:
        tags = {
            "wasp.run_id": self.run_id,
            "wasp.flow": "compare",
            "prefect.flow_run_id": self.manifest.values["prefect_run_id"] or "",
        }
        tags["prefect.flow_run_url"] = page_url()
        unnoised = {
            cell.row
            for cell in self.cells
            if cell.config.uses_private_rows and math.isinf(cell.config.epsilon)
        }
        if unnoised:
            tags["wasp.privacy"] = f"{NOT_PRIVATE}: {', '.join(sorted(unnoised))}"
        return tags


@contextmanager
def comparing(config: CompareConfig) -> Iterator[CompareRun]:
    """Open a comparison: check its configurations and record how it ends."""
    context = ErrorContext()
    home = state_folder()
    with explained_errors(context), reported_end():
        check_room(home)
        cells = take("compare", config) or checked_cells("compare", config)
        artifacts = open_artifacts(home)
        run_id = comparison_id(config, cells)
        context.folder = home / "runs" / run_id
        with recorded(artifacts, run_id, "compare", config, is_shared=True) as manifest:
            run = CompareRun(config, cells, manifest)
            run.begin()
            try:
                yield run
            except BaseException:
                run.tracker.end("FAILED")
                raise


def _means(comparison: Comparison) -> dict[str, float | None]:
    """Return the means over seeds by "metric/row: column"; figures without noise are in the table only."""
    keys = [
        (m, row, column)
        for m in comparison.metrics
        for row in comparison.rows
        for column in comparison.columns
    ]
    noised = [key for key in keys if not is_unnoised(comparison.answers, key[1])]
    means = {key: mean_of(comparison.answers, *key[1:], key[0]) for key in noised}
    return {f"{m}/{row}: {column}": mean.mean for (m, row, column), mean in means.items() if mean}
