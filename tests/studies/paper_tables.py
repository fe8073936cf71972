"""`python -m tests.studies.paper_tables`: write the tables of the papers' pages from the cells of their comparisons.

Reads docs/results/cells of the three papers, and writes tables into wasp.md, federated.md, dp_kps.md and
kd_tutor.md in docs/results, each below its heading. Runs no comparison.
"""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from connectors.artifacts.atomic_files import write_text_whole
from flows.compare.config import CompareConfig
from flows.compare.values import comparison_of
from flows.config.extends import find_config
from flows.config.files import load_config
from flows.reproduce.cell_tables import Cells, read_cells
from tasks.metrics.comparison import difference, mean_of
from tasks.reporting.compare_report import mean_text
from tasks.reporting.compare_results import Comparison
from tasks.reporting.reproduction import difference_text
from tests.studies.summaries import CELLS, Line, Tables, table_of, with_tables
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
YELP: Rows = (
    ("WASP", "WASP"),
    ("zero-shot: the same models, no private records", "zero-shot"),
    ("FuseGen, no private records", "FuseGen"),
    ("Aug-PE SmolLM2", "Aug-PE SmolLM2"),
    ("Aug-PE SmolLM2, hot", "Aug-PE SmolLM2, hot"),
    ("OnlyPrivate, to convergence (NOT PRIVATE)", "OnlyPrivate, to convergence"),
    ("OnlyPrivate, one pass (NOT PRIVATE)", "OnlyPrivate, one pass"),
    ("2,000 real records (NOT PRIVATE)", "2000 real records"),
    ("WASP without contrast", "WASP without contrast"),
    ("WASP without weighting", "WASP without weighting"),
    ("WASP, balanced B", "WASP, balanced B"),
    ("OnlyPrivate, balanced B (NOT PRIVATE)", "OnlyPrivate, balanced B"),
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


class Results:
    """Texts for the results of a comparison; `metric`: by default the accuracy."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.columns = comparison.columns

    def mean(self, row: str, column: str, metric: str = "accuracy") -> str:
        """Return mean and standard deviation over seeds; empty without a result."""
        mean = mean_of(self.comparison.answers, row, column, metric)
        return "" if mean is None else mean_text(mean, len(self.comparison.seeds))

    def minus(self, row: str, other: str, column: str) -> str:
        """Return the difference of two rows with its interval; empty for a row and itself."""
        ours = difference(self.comparison.answers, row, other, column, "accuracy")
        return "" if ours is None or row == other else difference_text(ours)

    def published(self, row: str, column: str, digits: int) -> str:
        """Return the published accuracy with as many digits as the paper prints; empty without one."""
        figure = self.comparison.published.get(("accuracy", row, column))
        return "" if figure is None else f"{figure:.{digits}f}"

    def fid(self, row: str, column: str) -> str:
        """Return the FID of a row; "no texts" for results without one."""
        mean = self.mean(row, column, "fid")
        if not mean and self.mean(row, column):
            return "no texts"
        return mean


@cache
def _cells(paper: str) -> Cells:
    return read_cells(CELLS / f"{paper}.parquet")


def read_results(name: str) -> Results:
    """Return the results of a comparison, `papers/PAPER#COMPARISON`; raises ValueError if a cell is there twice."""
    paper = name.partition("#")[0].rpartition("/")[2]
    recorded = _cells(paper)[name]
    if len({entry.labels for entry in recorded}) < len(recorded):
        raise ValueError(f"{name}: a seed of a row and column has two cells")
    config = load_config(CompareConfig, find_config(Path(name)), [])
    return Results(comparison_of(config, [entry.result for entry in recorded], made=""))


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


def yelp_table() -> list[str]:
    """Return Tables 1 and 4 of WASP on Yelp, by stars and by category."""
    results = read_results("papers/wasp#yelp_here")
    lines: list[Line] = [
        (
            label,
            *(
                text
                for column in results.columns
                for text in (
                    results.mean(row, column),
                    results.published(row, column, 4),
                    results.minus(row, "WASP", column),
                )
            ),
        )
        for label, row in YELP
    ]
    heads = [head for column in results.columns for head in (column, "published", "minus WASP")]
    return table_of(("row", *heads), lines)


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
    heads = {
        "accuracy": "accuracy",
        "discriminator_accuracy": "discriminator",
        "teachers_accuracy_not_private": "teachers (NOT PRIVATE)",
        "noisy_teachers_accuracy_not_private": "with noise (NOT PRIVATE)",
    }
    lines: list[Line] = [
        (label, *(results.mean(row, "equal lengths", metric) for metric in heads))
        for label, row in KD_IMDB
    ]
    return table_of(("row", *heads.values()), lines)


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


def tables() -> Tables:
    """Return the tables of each page, each with the beginning of a line above it."""
    return {
        RESULTS / "wasp.md": [
            ("## IMDb with six recorded models", imdb_table()),
            ("## Yelp: Tables 1 and 4", yelp_table()),
            ("## Banking: Table 1", banking_table()),
        ],
        RESULTS / "dp_kps.md": [
            ("## With the bundled model", with_texts_table()),
            ("## Table 5", phrases_table()),
        ],
        RESULTS / "federated.md": [("## Accuracy: Table 2", parties_table())],
        RESULTS / "kd_tutor.md": [
            ("## Recorded language models on IMDb", kd_imdb_table()),
            ("## Tables 1 and 2 on MTSamples", table_1_table()),
            ("## Figure 2 on MTSamples", figure_2_table()),
            ("## Figure 3 on MTSamples", figure_3_table()),
            ("## Figure 4 on MTSamples", figure_4_table()),
        ],
    }


def main() -> None:
    """Write the pages."""
    for path, text in with_tables(tables()).items():
        write_text_whole(path, text)
    sys.stdout.write("The tables of four pages agree with docs/results/cells\n")


if __name__ == "__main__":
    main()
