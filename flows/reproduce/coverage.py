"""The page on coverage of all papers, and their cells as Parquet, from stored cells alone."""

from pathlib import Path

from connectors.artifacts.atomic_files import write_text_whole, write_whole
from connectors.artifacts.store import Artifacts
from connectors.interfaces.json_values import Json
from flows.reproduce.catalogue import Catalogue
from flows.reproduce.cell_tables import cells_bytes
from flows.reproduce.run import ReproductionRun, Request
from flows.runtime.manifest import code_commit, now
from tasks.reporting.reproduction import CoveredPaper, coverage

COMMAND = "wasp reproduce --coverage"
CELLS = "cells"
"""Folder of the Parquet files, one for each paper."""


def write_coverage(catalogue: Catalogue, artifacts: Artifacts, folder: Path) -> Json:
    """Write coverage.md and the cells of each paper into a folder; return the paths, with the number of cells."""
    papers = []
    numbers: dict[str, int] = {}
    for name, paper in catalogue.papers.items():
        request = Request(name, paper, tuple(paper.items), False, False, COMMAND)
        run = ReproductionRun(request, artifacts)
        parts = tuple((entry.part, entry.where, entry.relation) for entry in paper.parts)
        papers.append(CoveredPaper(paper.title, paper.citation, run.items(), parts))
        answers = run.all_answers()
        path = folder / CELLS / f"{name}.parquet"
        _write_bytes(path, cells_bytes(answers))
        numbers[str(path)] = sum(map(len, answers.values()))
    page = folder / "coverage.md"
    commit = code_commit()[:8] or "unknown"
    text = coverage(papers, commit, now(), sum(numbers.values()))
    write_text_whole(page, text)
    return {"page": str(page), "cells": numbers}


def _write_bytes(path: Path, data: bytes) -> None:
    write_whole(path, lambda file: file.write(data))
