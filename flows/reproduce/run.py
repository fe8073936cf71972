"""Run the comparisons of a reproduction, and write its page after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from connectors.artifacts.store import Artifacts
from connectors.interfaces.counts import duration
from connectors.interfaces.errors import WaspError
from connectors.interfaces.json_values import Json
from connectors.rows.recipe_outputs import fetch_hint
from flows.compare.cells import Cell, comparison_id
from flows.compare.config import CompareConfig
from flows.compare.preflight import inspect_cells
from flows.compare.values import comparison_of, planned_cells
from flows.reproduce.answers import Answers
from flows.reproduce.catalogue import Item, Measurement, Paper
from flows.reproduce.cell_tables import Cells, cells_bytes
from flows.reproduce.data_files import RecipeFile, digests, recipe_files
from flows.reproduce.environment import environment
from flows.reproduce.judging import judge_claims
from flows.reproduce.matrices import Matrix, load_matrices
from flows.reproduce.merging import take_cells
from flows.reproduce.recorded_cells import RecordedCell
from flows.runtime.manifest import now
from flows.runtime.terminal_progress import display
from tasks.reporting.reproduction import (
    MeasuredComparison,
    ReproducedItem,
    Reproduction,
    markdown,
    page,
)

RunComparison = Callable[[CompareConfig], Json]
"""Runs a comparison and returns its summary."""


@dataclass(frozen=True, slots=True)
class Request:
    """The reproduction that a user requested.

    Attributes:
        name: name of the paper in the catalogue.
        is_published: True for comparisons with the published sizes.
        command: the command, for the page.
    """

    name: str
    paper: Paper
    items: tuple[Item, ...]
    is_quick: bool
    is_published: bool
    command: str

    @property
    def folder(self) -> str:
        """Folder of the page; another selection of items has another page."""
        parts = ["reproduce", self.name]
        if len(self.items) < len(self.paper.items):
            parts += [
                f"{kind}-{number}"
                for item in self.items
                for kind, numbers in (("table", item.tables), ("figure", item.figures))
                for number in numbers
            ]
        if self.is_published:
            parts.append("published")
        if self.is_quick:
            parts.append("quick")
        return f"runs/{'-'.join(parts)}"


class ReproductionRun:
    """The comparisons of a request: checked, run and shown on a page.

    `filed`: cells of other machines and days by comparison. They do not run again, except those that do not count any
    more (`left_out`, with reasons).
    """

    def __init__(self, request: Request, artifacts: Artifacts, filed: Cells | None = None) -> None:
        self.request = request
        self.artifacts = artifacts
        self.matrices = load_matrices(
            request.paper, request.items, request.is_published, request.is_quick
        )
        self.answers = Answers(artifacts)
        names = {matrix.name for matrix in self.matrices}
        of_request = {name: cells for name, cells in (filed or {}).items() if name in names}
        self.left_out = take_cells(
            self.matrices, self.answers, of_request, is_continued=True, of_others=filed
        )
        self.problems: dict[str, str] = {}
        """Why a comparison did not run, by its name."""
        self.blocked: set[str] = set()
        """Comparisons of which no cell can run."""
        self.warnings: list[str] = []
        # Computed once for all versions of the page.
        self._pictures: dict[object, dict[str, bytes]] = {}
        self._started = time.monotonic()

    @property
    def files(self) -> list[RecipeFile]:
        """Files of shipped recipes that the comparisons read."""
        return recipe_files(cell for matrix in self.matrices for cell in matrix.cells)

    @property
    def needed_files(self) -> list[RecipeFile]:
        """Those of the files that cells without a result read."""
        return recipe_files(cell for matrix in self.matrices for cell in self.open_cells(matrix))

    def open_cells(self, matrix: Matrix) -> list[Cell]:
        """Return the cells of a comparison that have to run, without duplicates."""
        open_ = self.answers.without_result(matrix.name, matrix.cells)
        return list({cell.key: cell for cell in open_}.values())

    def planned(self, matrix: Matrix) -> Json:
        """Return problems, calls and cost of the cells of a comparison that have to run.

        Missing data of recipes are no problem: the run fetches them.
        """
        open_ = self.open_cells(matrix)
        hints = [hint for file in recipe_files(open_) if (hint := fetch_hint(str(file.path)))]
        return planned_cells(matrix.config, len(matrix.cells), open_, hints)

    def check(self) -> None:
        """Check the open cells of all comparisons, and show all problems before the first cell starts."""
        for line in self.left_out:
            display().say(f"left out: {line}")
        for matrix in self.matrices:
            open_ = self._checked(matrix)
            preflight = inspect_cells(matrix.config, open_)
            self.warnings += [f"{matrix.name}: {problem}" for problem in preflight.problems]
            for line in [*preflight.problems, *preflight.unchecked]:
                display().say(f"warning: {matrix.name}: {line}")
            if open_ and preflight.failing == len(open_):
                self.blocked.add(matrix.name)
                self.problems[matrix.name] = "; ".join(preflight.problems)

    def _checked(self, matrix: Matrix) -> list[Cell]:
        """Return an open cell of each row and column; other seeds have the same models and files."""
        open_ = self.open_cells(matrix)
        return list({(cell.row, cell.column): cell for cell in reversed(open_)}.values())

    def run(self, run_comparison: RunComparison) -> None:
        """Run the comparisons in stages, and write the page after each comparison."""
        self.write_page()
        for matrix, config in self._stages():
            if matrix.name in self.blocked:
                continue
            parts = self._open_parts(matrix, config)
            if parts:
                self.problems.pop(matrix.name, None)
            for part in parts:
                problem = self._run_part(matrix, part, run_comparison)
                if problem and len(parts) == 1:
                    self.problems[matrix.name] = problem
                elif problem:
                    self.warnings.append(f"{matrix.name}: {problem}")
                self.write_page()

    def _run_part(
        self, matrix: Matrix, part: CompareConfig, run_comparison: RunComparison
    ) -> str | None:
        """Run a part of a comparison; return why it did not run."""
        try:
            summary = run_comparison(part)
        # One comparison that cannot run must not keep the others away.
        except WaspError as error:
            display().say(f"warning: {matrix.name}: {error}")
            return str(error)
        self.answers.add(matrix.cells, summary)
        return None

    def _open_parts(self, matrix: Matrix, config: CompareConfig) -> list[CompareConfig]:
        """Return the parts of a comparison that have to run: all of it, or those that no other machine ran."""
        if not self.answers.has_taken(matrix.name):
            return [] if self._is_finished(matrix, config) else [config]
        return matrix.parts_with(self.answers.without_result(matrix.name, matrix.cells_in(config)))

    def _stages(self) -> Iterator[tuple[Matrix, CompareConfig]]:
        """Yield two cells of the first comparison, all comparisons with one seed, then all with all seeds."""
        for matrix in self.matrices[:1]:
            yield matrix, matrix.first_pair()
        for matrix in self.matrices:
            yield matrix, matrix.first_seed()
        for matrix in self.matrices:
            if len(matrix.config.seeds) > 1:
                yield matrix, matrix.config

    def _is_finished(self, matrix: Matrix, config: CompareConfig) -> bool:
        """Return True if all cells and the tables of a comparison are stored."""
        cells = matrix.cells_in(config)
        tables = f"runs/{comparison_id(config, cells)}/table.html"
        return self.answers.are_stored(cells) and self.artifacts.exists(tables)

    # --- page
    def write_page(self) -> None:
        """Write the page of the results that are known now."""
        result = self.result()
        folder = self.request.folder
        self.artifacts.write_text(f"{folder}/page.html", page(result))
        self.artifacts.write_text(f"{folder}/page.md", markdown(result))
        self.artifacts.write_bytes(f"{folder}/cells.parquet", cells_bytes(self.all_answers()))
        display().say(f"page of {self.request.name} written: {self.page}")

    @property
    def page(self) -> str:
        """Location of the page."""
        return self.artifacts.where(f"{self.request.folder}/page.html")

    def all_answers(self) -> dict[str, list[RecordedCell]]:
        """Return the results of all cells that have one, by comparison."""
        return {matrix.name: self.answers.of(matrix.name, matrix.cells) for matrix in self.matrices}

    def result(self) -> Reproduction:
        """Return what the page shows now."""
        took = duration(time.monotonic() - self._started)
        return Reproduction(
            title=self.request.paper.title,
            citation=self.request.paper.citation,
            command=self.request.command,
            is_quick=self.request.is_quick,
            made=now(),
            items=self.items(),
            environment=self._environment
            | self._origin_of_taken()
            | {"time of this command": took},
            data=digests(self.files, self.answers.digests),
            problems=tuple(self.warnings),
            pictures=self._pictures,
        )

    def _origin_of_taken(self) -> dict[str, str]:
        """Return how many cells other machines ran, and their commits."""
        taken = self.answers.taken
        if not taken:
            return {}
        commits = sorted({entry.commit[:8] for entry in taken} - {""})
        return {"cells of other machines": f"{len(taken)}, of commits {', '.join(commits)}"}

    @cached_property
    def _environment(self) -> dict[str, str]:
        return environment()

    def items(self) -> tuple[ReproducedItem, ...]:
        """Return the items with the verdicts on their claims."""
        return tuple(self._item(item) for item in self.request.items)

    def _item(self, item: Item) -> ReproducedItem:
        by_name = {matrix.name: matrix for matrix in self.matrices}
        measured = tuple(
            self._measured(by_name[measurement.comparison], measurement, bool(item.figures))
            for measurement in item.measurements(self.request.is_published)
        )
        reason = "" if measured else item.reason or "no comparison with the published sizes"
        return ReproducedItem(item.name, item.about, measured, reason)

    def _measured(
        self, matrix: Matrix, measurement: Measurement, is_figure: bool
    ) -> MeasuredComparison:
        config, cells = matrix.part(measurement)
        answers = [entry.result for entry in self.answers.of(matrix.name, cells)]
        comparison = comparison_of(config, answers, now())
        judgements = judge_claims(comparison, measurement.claims)
        claimed = {claim.metric for claim in judgements} or {comparison.metrics[0]}
        failures = [
            (f"{entry.row} · {entry.column} · seed {entry.seed}", entry.error)
            for entry in answers
            if entry.state == "failed"
        ]
        return MeasuredComparison(
            name=matrix.name,
            comparison=comparison,
            judgements=judgements,
            cells=len(cells),
            finished=len(answers) - len(failures),
            seconds=sum(entry.seconds for entry in answers),
            failures=tuple(failures),
            problem=self.problems.get(matrix.name, ""),
            remark=measurement.remark,
            address=self._address(matrix),
            # A figure is drawn whole; next to the claims of a table, further figures would hide them.
            drawn=tuple(name for name in comparison.metrics if is_figure or name in claimed),
        )

    def _address(self, matrix: Matrix) -> str:
        """Return the address of the last tables of a comparison, relative to the page; empty without tables."""
        for config in (matrix.config, matrix.first_seed(), matrix.first_pair()):
            run_id = comparison_id(config, matrix.cells_in(config))
            if self.artifacts.exists(f"runs/{run_id}/table.html"):
                return f"../{run_id}/table.html"
        return ""
