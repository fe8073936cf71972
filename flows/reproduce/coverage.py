"""The page on coverage of all papers, from cells that are stored here and cells of earlier pages.

Whole reproductions take days and several machines. Each adds its cells to the Parquet files, from which any clone makes
the page.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from connectors.artifacts.atomic_files import write_text_whole, write_whole
from connectors.artifacts.store import Artifacts
from connectors.interfaces.counts import counted
from connectors.interfaces.json_values import Json
from flows.compare.cells import Cell
from flows.config.paths import FILES
from flows.reproduce.catalogue import Catalogue, Item, Paper
from flows.reproduce.cell_tables import Cells, cells_bytes, read_cells
from flows.reproduce.data_files import other_rows
from flows.reproduce.merging import take_cells
from flows.reproduce.run import ReproductionRun, Request
from flows.runtime.manifest import code_commit, now
from tasks.reporting.coverage import CoveredComparison, CoveredItem, CoveredPaper, coverage
from tasks.reporting.reproduction import ReproducedItem

CELLS = "cells"
"""Folder of the Parquet files, one for each paper."""


def write_coverage(catalogue: Catalogue, artifacts: Artifacts, folder: Path) -> Json:
    """Write coverage.md and the cells of each paper into a folder, after those that the folder has.

    Returns the paths, with the number of cells and those left out. Raises InputError, before anything is written, for
    a file of cells that cannot be read.
    """
    filed = {name: read_cells(cells_file(folder, name)) for name in catalogue.papers}
    papers = []
    numbers: dict[str, int] = {}
    left_out: list[str] = []
    for name, paper in catalogue.papers.items():
        request = Request(name, paper, tuple(paper.items), False, False, "")
        run = ReproductionRun(request, artifacts)
        left_out += take_cells(run.matrices, run.answers, filed[name])
        cells = run.all_answers()
        papers.append(_covered(paper, run, cells))
        path = cells_file(folder, name)
        numbers[str(path)] = papers[-1].finished
        # Other versions of the library write equal cells as other bytes.
        if not path.exists() or filed[name] != {key: rows for key, rows in cells.items() if rows}:
            _write_bytes(path, cells_bytes(cells))
    page = folder / "coverage.md"
    write_text_whole(page, coverage(papers, code_commit()[:8] or "unknown", now()))
    return {"page": str(page), "cells": numbers, "left_out": left_out}


def cells_file(folder: Path, name: str) -> Path:
    """Return the file of the cells of a paper."""
    return folder / CELLS / f"{name}.parquet"


def _write_bytes(path: Path, data: bytes) -> None:
    write_whole(path, lambda file: file.write(data))


def _covered(paper: Paper, run: ReproductionRun, cells: Cells) -> CoveredPaper:
    reproduced = zip(paper.items, run.items(), strict=True)
    data = {pair for rows in cells.values() for entry in rows for pair in entry.data.items()}
    return CoveredPaper(
        title=paper.title,
        citation=paper.citation,
        command=f"wasp reproduce {run.request.name}",
        items=tuple(_covered_item(run, item, shown) for item, shown in reproduced),
        cells=sum(len(matrix.cells) for matrix in run.matrices),
        finished=sum(map(len, cells.values())),
        other_rows=other_rows(data),
        parts=tuple((entry.part, entry.where, entry.relation) for entry in paper.parts),
    )


def _covered_item(run: ReproductionRun, item: Item, shown: ReproducedItem) -> CoveredItem:
    by_name = {matrix.name: matrix for matrix in run.matrices}
    comparisons = []
    for measurement, measured in zip(item.here, shown.comparisons, strict=True):
        _, cells = by_name[measurement.comparison].part(measurement)
        recorded = run.answers.of(measurement.comparison, cells)
        comparisons.append(
            CoveredComparison(
                measured,
                _writers(cells),
                days=frozenset(entry.finished for entry in recorded) - {""},
                commits=frozenset(entry.commit for entry in recorded) - {""},
            )
        )
    published = tuple(measurement.comparison for measurement in item.published)
    return CoveredItem(shown, _options(item), tuple(comparisons), published)


def _options(item: Item) -> str:
    """Return the options of the command that measures an item; none if nothing does."""
    words: list[str] = []
    if not item.here and not item.published:
        return ""
    for number in item.tables:
        words += ["--table", number]
    for number in item.figures:
        words += ["--figure", number]
    if not item.here:
        words.append("--published")
    return shlex.join(words)


def _writers(cells: Sequence[Cell]) -> str:
    """Return the language models that write the texts of some cells as a phrase: names, and numbers of others."""
    models = {plm.name: plm for cell in cells for plm in cell.config.plms}.values()
    stubs = sum(plm.is_stub for plm in models)
    recorded = sum(plm.connector in FILES and not plm.is_stub for plm in models)
    writers = [plm.name for plm in models if plm.connector not in FILES and not plm.is_stub]
    if recorded:
        writers.append(counted(recorded, "recorded model"))
    if stubs:
        writers.append(counted(stubs, "stub"))
    return ", ".join(writers)
