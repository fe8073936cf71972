"""`python -m tests.studies.guidance --folder OUT`: the study of guidance, one process.

Mechanism x epsilon x private rows x data set x seed, with the floors (zero-shot and FuseGen: no private row) and the
ceilings (no noise, NOT PRIVATE). The first call embeds four corpora, 7 minutes; a cell takes half a second. What is
done stands in OUT/cells.jsonl and is not done again. Ends with tables (OUT/tables.md) and plots (OUT/*.png). Needs the
folder of the data (the variable WASP_DATA, or beside the repository).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tests.studies.guidance.cells import FLOORS, MECHANISMS, Cell, run
from tests.studies.guidance.corpora import DATA, corpus, folder_of_data
from tests.studies.guidance.pictures import PLOTTED, plot
from tests.studies.guidance.told import measured, tables

EPSILONS = (1.0, 4.0, 0.5, 2.0, 8.0)
ROWS = (100, 50, 300, 1000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry out the cells that are missing, then tell what came of all."""
    chosen = _parser().parse_args(arguments)
    data = folder_of_data()
    if data is None:
        sys.exit("The folder of the data is missing: set WASP_DATA to it.")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    book = chosen.folder / "cells.jsonl"
    done = {_name(one) for one in read(book)}
    corpora = {}
    if not chosen.tell:
        for name, cell in cells(chosen):
            if _name({"data": name, **_asked(cell)}) in done:
                continue
            if name not in corpora:
                corpora[name] = corpus(name, data, chosen.folder / "corpora")
            found = {"data": name, **_asked(cell), **run(corpora[name], cell)}
            with book.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
    tell([one for one in read(book) if one["adjacency"] == chosen.adjacency], chosen.folder)


def tell(cells: list[dict[str, Any]], folder: Path) -> None:
    """Write tables, what the plan reads, and the plots into a folder."""
    if not cells:
        return
    table = pd.DataFrame(cells)
    table["epsilon"] = table["epsilon"].astype(float)
    (folder / "tables.md").write_text(tables(table), encoding="utf-8")
    (folder / "measured.yaml").write_text(measured(table), encoding="utf-8")
    for metric in PLOTTED:
        (folder / f"{metric}.png").write_bytes(plot(table, metric))


def read(book: Path) -> list[dict[str, object]]:
    """Return the cells that are done; a last line that was cut short is left out."""
    if not book.exists():
        return []
    lines = book.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def cells(chosen: argparse.Namespace) -> Iterator[tuple[str, Cell]]:
    """Yield (data set, cell), the seeds outermost, so that a study that is ended early is whole for some of them."""
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        for rows in chosen.rows:
            for name in chosen.data:
                if rows == ROWS[0]:
                    for floor in FLOORS:  # no private row is looked at: the number means nothing
                        yield name, Cell(floor, 1.0, rows, seed, chosen.samples, adjacency=chosen.adjacency)
                for mechanism in chosen.mechanisms:
                    for epsilon in (math.inf, *chosen.epsilons):
                        yield name, Cell(mechanism, epsilon, rows, seed, chosen.samples, adjacency=chosen.adjacency)


def _asked(cell: Cell) -> dict[str, object]:
    epsilon = "inf" if math.isinf(cell.epsilon) else cell.epsilon
    asked: dict[str, object] = {
        "mechanism": cell.mechanism,
        "epsilon": epsilon,
        "rows": cell.rows,
        "seed": cell.seed,
        "n": cell.samples,
    }
    return asked | {"adjacency": cell.adjacency}


def _name(one: dict[str, object]) -> tuple[object, ...]:
    return tuple(one[key] for key in ("data", "mechanism", "epsilon", "rows", "seed", "n", "adjacency"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.studies.guidance", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="vectors, cells, tables and plots")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--samples", type=int, default=1200, help="texts of a run (N)")
    parser.add_argument("--adjacency", choices=("add_remove", "replace_one"), default="add_remove")
    parser.add_argument("--tell", action="store_true", help="only tables and plots of what is done")
    return parser


if __name__ == "__main__":
    main()
