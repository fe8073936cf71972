"""`python -m tests.studies.paper_tables`: write the tables of the papers' pages from the cells of their comparisons.

Reads docs/results/cells of the three papers, and writes tables into wasp.md, federated.md, dp_kps.md and
kd_tutor.md in docs/results, each below its heading. Runs no comparison.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.counts import counted
from flows.compare.config import CompareConfig
from flows.config.extends import find_config
from flows.config.files import load_config
from tasks.metrics.comparison import paired_difference
from tests.studies.summaries import CELLS, Line, table_of, with_table
from tests.support.paths import ROOT

RESULTS = ROOT / "docs/results"
Rows = Sequence[tuple[str, str]]
"""Names of rows on a page, each with its name in the comparison."""

IMDB: Rows = (
    ("WASP", "WASP"),
    ("zero-shot: the same models, no private records", "zero-shot"),
    ("FuseGen, no private records", "FuseGen"),
    *(
        (f"Aug-PE {name}", f"Aug-PE {name}")
        for name in ("Flan-T5", "GPT-2", "ChatGLM3", "Vicuna", "Llama-2", "OPT")
    ),
    ("OnlyPrivate, to convergence (NOT PRIVATE)", "OnlyPrivate, to convergence"),
    ("OnlyPrivate, one pass (NOT PRIVATE)", "OnlyPrivate, one pass"),
    ("2,000 real records (NOT PRIVATE)", "2000 real records"),
    ("WASP without contrast", "WASP without contrast"),
    ("WASP without weighting", "WASP without weighting"),
    *((f"WASP, Q = {votes}", f"WASP, Q = {votes}") for votes in (1, 2, 4, 16)),
)
BANKING: Rows = (
    ("zero-shot: the same models, no private records", "zero-shot"),
    ("WASP", "WASP"),
    ("WASP without weighting", "WASP without weighting"),
    ("WASP, Q = 1", "WASP, Q = 1"),
    ("WASP, no noise (NOT PRIVATE)", "WASP, no noise"),
    ("WASP, M = 1000, epsilon 1", "WASP, 1000 records, epsilon 1"),
    (
        "**`guidance: auto` (a density), M = 1000, epsilon 1**",
        "WASP, guidance auto, 1000 records, epsilon 1",
    ),
    ("Aug-PE (paraphrases, kept as in the WASP paper)", "Aug-PE"),
    ("PrE-Text", "PrE-Text"),
    ("FuseGen, no private records", "FuseGen"),
    ("KD discriminator and tutor, M = 1000", "KD discriminator and tutor"),
    ("DP-KPS (phrases in prompts), M = 1000", "DP-KPS"),
    ("DP-SGD + Gen, LoRA of rank 4, 8 steps, M = 1000", "DP-SGD + Gen, LoRA"),
    ("the same prompts to the model before training", "DP-SGD + Gen, untrained"),
    ("zero-shot, prompts as chat", "zero-shot, prompts as chat"),
    ("WASP, prompts as chat", "WASP, prompts as chat"),
    ("WASP, prompts as chat, without contrast", "WASP, prompts as chat, without contrast"),
    ("100 real records (NOT PRIVATE)", "100 real records"),
)
PARTIES = (
    ("WASP, ten parties", "WASP", "WASP"),
    ("PrE-Text, ten parties", "PrE-Text Flan-T5", "PrE-Text"),
    ("WASP, one party with all records", "WASP, one party", "WASP, one party"),
    ("zero-shot: the same models, no private records", "zero-shot", "zero-shot"),
    ("300 real records (NOT PRIVATE)", "300 real records", "300 real records"),
)
"""Names of rows on the page of parties, with those in the comparisons on IMDb and Banking."""
TABLE_1: Rows = (
    ("teachers and tutor", "teachers and tutor"),
    ("no tutor", "no tutor"),
    ("exact label counts (NOT PRIVATE)", "exact label counts"),
    ("one teacher", "one teacher"),
    ("Laplace noise", "Laplace noise"),
    ("DA with public texts: random texts, no private records", "DA with public texts"),
    ("DA with DP-SGD", "DA with DP-SGD"),
    ("DA with Ghost", "DA with Ghost"),
    ("DP-SGD, no texts", "DP-SGD"),
    ("Ghost, no texts", "Ghost"),
    ("Private (NOT PRIVATE)", "Private"),
)
CHOICE: Rows = tuple(
    (name, name) for name in ("teachers and tutor", "DA with DP-SGD", "DA with Ghost")
)
CURVES: Rows = (
    *CHOICE,
    ("floor: DA with public texts, no private records", "DA with public texts"),
    ("3,000 real records (NOT PRIVATE)", "3000 real records"),
)
KD_IMDB: Rows = (
    *((name, name) for name in ("teachers and tutor", "all queries generated", "one teacher")),
    *((name, name) for name in ("30 teachers", "Laplace noise")),
    ("floor: DA with public texts, no private records", "DA with public texts"),
)
WITH_TEXTS: Rows = (
    ("iterative", "iterative"),
    ("iterative, adapted", "iterative, adapted to unlabelled texts"),
    ("independent, adapted", "independent, adapted to unlabelled texts"),
    ("floor: only the models, prompts name the class", "only the models"),
    ("4,000 real records (NOT PRIVATE)", "the private rows as they are"),
)


@dataclass(frozen=True, slots=True)
class Results:
    """The cells of a comparison, and its published figures by metric, row and column."""

    cells: pd.DataFrame
    config: CompareConfig

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the comparison."""
        return [column.name for column in self.config.columns]

    def values(self, row: str, column: str, metric: str = "accuracy") -> dict[int, float]:
        """Return a metric by seed, without cells that have none; adapted rows show another one."""
        (shown,) = [
            entry.shows.get(metric, metric) for entry in self.config.rows if entry.name == row
        ]
        chosen = self.cells[(self.cells["row"] == row) & (self.cells["column"] == column)]
        by_seed = chosen.set_index("seed")[shown].dropna()
        if not by_seed.index.is_unique:
            raise ValueError(f"{row}, {column}: a seed has two cells")
        return {int(str(seed)): float(value) for seed, value in by_seed.items()}

    def mean(self, row: str, column: str, metric: str = "accuracy") -> str:
        """Return mean and standard deviation over seeds, with the number of seeds that are not all."""
        values = pd.Series(self.values(row, column, metric), dtype=float)
        if values.empty:
            return ""
        text = f"{values.mean():.3f}"
        if len(values) > 1:
            text += f" ± {values.std():.3f}"
        if len(values) < len(self.config.seeds):
            text += f" ({counted(len(values), 'seed')})"
        return text

    def minus(self, row: str, other: str, column: str, metric: str = "accuracy") -> str:
        """Return the difference of two rows, paired by seed, with its interval."""
        ours = paired_difference(
            self.values(row, column, metric), self.values(other, column, metric)
        )
        if ours is None or row == other:
            return ""
        if ours.low is None:
            return f"{ours.mean:+.3f} (1 seed)"
        return f"{ours.mean:+.3f} [{ours.low:+.3f}, {ours.high:+.3f}]"

    def published(self, row: str, column: str, digits: int) -> str:
        """Return the published accuracy with as many digits as the paper prints; empty without one."""
        figure = self.config.published.get(("accuracy", row, column))
        return "" if figure is None else f"{figure:.{digits}f}"

    def fid(self, row: str, column: str) -> str:
        """Return the FID of a row; "no texts" for results without one."""
        mean = self.mean(row, column, "fid")
        if not mean and self.values(row, column):
            return "no texts"
        return mean


def read_results(name: str) -> Results:
    """Return the cells of a comparison of a paper, `papers/PAPER#COMPARISON`."""
    paper = name.partition("#")[0].rpartition("/")[2]
    cells = pd.read_parquet(CELLS / f"{paper}.parquet")
    config = load_config(CompareConfig, find_config(Path(name)), [])
    return Results(cells[cells["comparison"] == name], config)


def with_texts_table() -> list[str]:
    """Return the table of DP-KPS with the bundled model, Tables 2, 4 and 6 of the paper."""
    results = read_results("papers/dp_kps#compare_dp_kps")
    return _by_column(results, WITH_TEXTS)


def phrases_table() -> list[str]:
    """Return Table 5 of DP-KPS: sequences without a language model."""
    results = read_results("papers/dp_kps#compare_dp_kps_phrases")
    columns = results.columns[2:]
    names = ("iterative", "independent", "sharpened")
    lines: list[Line] = [
        (name, *(results.mean(name, column) for column in columns)) for name in names
    ]
    published = [f"*{results.published('iterative', column, 3)}*" for column in columns]
    lines.insert(1, ("*published, iterative*", *published))
    lines += [
        (f"{name} - iterative", *(results.minus(name, "iterative", column) for column in columns))
        for name in names[1:]
    ]
    return table_of(("sampling", *columns), lines)


def imdb_table() -> list[str]:
    """Return Tables 1, 4 and 5 of WASP on IMDb."""
    results = read_results("papers/wasp#imdb_here")
    return _against(results, IMDB, "IMDb", "WASP", "accuracy minus WASP's")


def banking_table() -> list[str]:
    """Return Table 1 of WASP on Banking, with its rivals."""
    results = read_results("papers/wasp#banking_here")
    return _against(results, BANKING, "Banking", "zero-shot", "accuracy minus zero-shot's")


def parties_table() -> list[str]:
    """Return Table 2 of WASP on IMDb and Banking, with ten parties."""
    lines: list[list[str]] = [[label] for label, *_ in PARTIES]
    for name, column in (("imdb", "IMDb"), ("banking", "Banking")):
        results = read_results(f"papers/wasp#table_2_{name}_here")
        for line, (_, on_imdb, on_banking) in zip(lines, PARTIES, strict=True):
            row = on_imdb if column == "IMDb" else on_banking
            line += [
                results.mean(row, column),
                results.published(row, column, 4),
                results.fid(row, column),
            ]
    heads = ("row", "IMDb", "published", "FID", "Banking", "published", "FID")
    return table_of(heads, lines)


def kd_imdb_table() -> list[str]:
    """Return the tutor's tables and figures on IMDb."""
    results = read_results("papers/kd_tutor#compare_kd_imdb")
    metrics = results.config.metrics
    heads = ("accuracy", "discriminator", "teachers (NOT PRIVATE)", "with noise (NOT PRIVATE)")
    lines: list[Line] = [
        (label, *(results.mean(row, "equal lengths", metric) for metric in metrics))
        for label, row in KD_IMDB
    ]
    return table_of(("row", *heads), lines)


def table_1_table() -> list[str]:
    """Return Tables 1 and 2 of the tutor on MTSamples."""
    results = read_results("papers/kd_tutor#compare_kd_mtsamples")
    columns = results.columns
    metrics = ("accuracy", "weighted_f1")
    lines: list[Line] = [
        (label, *(results.mean(row, column, metric) for metric in metrics for column in columns))
        for label, row in TABLE_1
    ]
    heads = ("accuracy, 300 texts", "480 texts", "weighted F1, 300 texts", "480 texts")
    return table_of(("row", *heads), lines)


def figure_2_table() -> list[str]:
    """Return Figure 2 of the tutor on MTSamples: accuracy by epsilon."""
    return _by_column(read_results("papers/kd_tutor#compare_kd_curves"), CURVES, "epsilon ")


def figure_3_table() -> list[str]:
    """Return Figure 3 of the tutor on MTSamples: accuracy of the discriminator by epsilon."""
    results = read_results("papers/kd_tutor#compare_kd_figure_3")
    return _by_column(results, CHOICE, "epsilon ", "discriminator_accuracy")


def figure_4_table() -> list[str]:
    """Return Figure 4 of the tutor on MTSamples, by the number of teachers."""
    results = read_results("papers/kd_tutor#compare_kd_figure_4")
    labels = {
        "teachers_accuracy_not_private": "teachers (NOT PRIVATE)",
        "noisy_teachers_accuracy_not_private": "teachers with noise (NOT PRIVATE)",
        "discriminator_accuracy": "student, which selects texts",
        "accuracy": "classifier of the selected texts",
    }
    lines: list[Line] = [
        (label, *(results.mean("teachers and tutor", column, metric) for column in results.columns))
        for metric, label in labels.items()
    ]
    return table_of(("accuracy of", *results.columns), lines)


def _by_column(results: Results, rows: Rows, head: str = "", metric: str = "accuracy") -> list[str]:
    """Return mean and standard deviation of rows in all columns."""
    lines: list[Line] = [
        (label, *(results.mean(row, column, metric) for column in results.columns))
        for label, row in rows
    ]
    return table_of(("row", *(f"{head}{column}" for column in results.columns)), lines)


def _against(results: Results, rows: Rows, column: str, reference: str, minus: str) -> list[str]:
    """Return accuracy, published figure, FID and the difference from a row."""
    lines: list[Line] = [
        (
            label,
            results.mean(row, column),
            results.published(row, column, 4),
            results.fid(row, column),
            results.minus(row, reference, column),
        )
        for label, row in rows
    ]
    return table_of(("row", "accuracy", "published", "FID", minus), lines)


def tables() -> Mapping[str, Sequence[tuple[str, list[str]]]]:
    """Return the tables of each page, each with the beginning of a line above it."""
    return {
        "wasp.md": [
            ("## IMDb with six recorded models", imdb_table()),
            ("## Banking: Table 1", banking_table()),
        ],
        "dp_kps.md": [
            ("## With the bundled model", with_texts_table()),
            ("## Table 5", phrases_table()),
        ],
        "federated.md": [("## Accuracy: Table 2", parties_table())],
        "kd_tutor.md": [
            ("## Recorded language models on IMDb", kd_imdb_table()),
            ("## Tables 1 and 2 on MTSamples", table_1_table()),
            ("## Figure 2 on MTSamples", figure_2_table()),
            ("## Figure 3 on MTSamples", figure_3_table()),
            ("## Figure 4 on MTSamples", figure_4_table()),
        ],
    }


def pages() -> dict[Path, str]:
    """Return the texts of the pages with their tables; ValueError for a page without a line of a table."""
    texts = {}
    for name, placed in tables().items():
        text = (RESULTS / name).read_text(encoding="utf-8")
        for above, lines in placed:
            text = with_table(text, above, lines)
        texts[RESULTS / name] = text
    return texts


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        write_text_whole(path, text)
    sys.stdout.write("The tables of four pages agree with docs/results/cells\n")


if __name__ == "__main__":
    main()
