"""`python -m tests.studies.summaries`: write tables and forecasts from the cells of the studies.

Reads exported_texts, more_texts and neutral_labels in docs/results/cells. Writes their tables into README.md and
docs/results/guidance_auto.md, each below its heading, and the files of measurements from which `wasp advise` and plans
forecast. Ends with exit code 1 if the prose of a document states other figures. Runs no study.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from connectors.artifacts.atomic_files import write_text_whole
from flows.config.task_files import load_task
from flows.methods.wasp.opening import (
    CLOSED,
    MEASURED,
    MORE_MEASURED,
    UNNAMED_MEASURED,
    UseDecision,
)
from tasks.accounting.integer_noise import calibrate_sums
from tasks.guidance.topics import LEAST_CLASSES
from tasks.metrics.comparison import Difference, adjusted, paired_difference
from tasks.private.density.promise import DensityPrivacy
from tests.support.paths import ROOT

CELLS = ROOT / "docs/results/cells"
RESULTS = ROOT / "docs/results/guidance_auto.md"
README = ROOT / "README.md"

TITLES = {
    "banking10": "Banking",
    "dbpedia14": "DBPedia",
    "imdb": "IMDb",
    "openreview_area": "OpenReview-Area",
    "yelp_category": "Yelp-Category",
    "yelp_rating": "Yelp-Rating",
}
"""Names of the data sets in tables, by task."""
STUDENTS = ("head", "words")
RELEASE_ALONE = {"head": "means", "words": "largest"}
"""The rival of a student that needs the release and no text."""
NO_TEXTS = ("real", *RELEASE_ALONE.values())
"""Training sets of the study of more texts that contain no written text."""
SIZES = (600, 2000, 6000)
"""Numbers of texts in tables; a set with other numbers of classes has a few texts less."""
DEFAULT_SIZE = 2000
"""Texts that `wasp init` writes for ten classes."""
LARGEST = {
    "Banking": 0.10,
    "DBPedia": 0.08,
    "IMDb": 0.50,
    "Yelp-Category": 0.62,
    "Yelp-Rating": 0.44,
}
"""Part of the largest class of the test records."""
README_SETTING = (1000, 1.0)
"""Number of records and epsilon of README's table."""
NOTICED = 0.01
"""Accuracy below its floor that counts."""
CERTAIN = 0.05
"""Adjusted p-value of a gain that differs from 0."""

BySeed = dict[int, float]
"""Accuracies by seed."""
Setting = tuple[str, int, float]
"""Title of a data set, number of records, epsilon."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Accuracies of a student at a setting, by seed: exported file, best floor and real records (NOT PRIVATE).

    `without`: the better labels that open no record. `release`: the release alone. `unnoised`: labels of the release
    without noise (NOT PRIVATE); empty where it was not measured.
    """

    file: BySeed
    without: BySeed
    release: BySeed
    real: BySeed
    unnoised: BySeed

    @property
    def floor(self) -> BySeed:
        """The rival with the highest mean."""
        return max(self.without, self.release, key=_mean)

    @property
    def gain(self) -> Difference:
        """File minus best floor, paired by seed."""
        return _paired(self.file, self.floor)


Study = Mapping[str, Mapping[Setting, Measured]]
"""The measurements of a study by student and setting."""


# --- cells
def read_exported(cells: pd.DataFrame) -> Study:
    """Return the study with 600 texts."""
    study: dict[str, dict[Setting, Measured]] = {student: {} for student in STUDENTS}
    for (data, rows, epsilon), group in cells.groupby(["data", "rows", "epsilon"], sort=False):
        by_seed = _indexed(group)
        for student, release in (("head", "means"), ("words", "share")):
            without = [by_seed[f"{student} {labels}"].to_dict() for labels in ("hard", "soft")]
            study[student][data, rows, epsilon] = Measured(
                file=by_seed[f"{student} file"].to_dict(),
                without=max(without, key=_mean),
                release=by_seed[release].to_dict(),
                real=by_seed[f"{student} real"].to_dict(),
                unnoised={},
            )
    return study


def read_more(cells: pd.DataFrame, names: str, size: int) -> Study:
    """Return the study of more texts for class names of a kind and a number of texts."""
    study: dict[str, dict[Setting, Measured]] = {student: {} for student in STUDENTS}
    # Results without written texts belong to every size.
    of_size = cells["training"].isin(NO_TEXTS) | cells["texts"].between(0.98 * size, size)
    for (data, records), group in cells[(cells["names"] == names) & of_size].groupby(
        ["data", "records"]
    ):
        for epsilon in sorted(set(group["epsilon"]) - {0.0}):
            for student in STUDENTS:
                study[student][TITLES[data], records, epsilon] = _of_setting(
                    group, epsilon, student
                )
    return study


def _of_setting(cells: pd.DataFrame, epsilon: float, student: str) -> Measured:
    released = cells[cells["epsilon"] == epsilon]
    # They need no release: epsilon 0.
    others = cells[cells["epsilon"] == 0]
    without = [_by_seed(others, labels, student) for labels in ("asked", "plain")]
    return Measured(
        file=_by_seed(released, "file", student),
        without=max(without, key=_mean),
        release=_by_seed(released, RELEASE_ALONE[student], student),
        real=_by_seed(others, "real", student),
        unnoised=_by_seed(others, "unnoised", student),
    )


def _by_seed(cells: pd.DataFrame, training: str, student: str) -> BySeed:
    chosen = cells[cells["training"] == training]
    by_seed: BySeed = _indexed(chosen)[student].to_dict()
    return by_seed


def _indexed(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells of one setting by seed; ValueError if a seed has two."""
    by_seed = cells.set_index("seed")
    if not by_seed.index.is_unique:
        repeated = by_seed.index[by_seed.index.duplicated()][0]
        raise ValueError(f"cells of one setting: seed {repeated} has more than one cell")
    return by_seed


def _mean(values: BySeed) -> float:
    return float(np.mean(list(values.values())))


def _paired(ours: BySeed, theirs: BySeed) -> Difference:
    difference = paired_difference(ours, theirs)
    if difference is None:
        raise ValueError("two results without a common seed")
    return difference


# --- figures of a study
@dataclass(frozen=True, slots=True)
class Summary:
    """A student over all settings of a study, in parts of 1.

    `gain`, `least`, `most`: of the file over the best floor. `closed`: part of the distance from the best floors to
    real records. `below`: settings more than a point below their floor. `unnoised`: the gain of labels of the release
    without noise; nan if not measured.
    """

    settings: int
    gain: float
    least: float
    most: float
    over_without: float
    over_release: float
    closed: float
    below: int
    unnoised: float


def summary(measured: Sequence[Measured]) -> Summary:
    """Return the figures of a student over settings."""
    gains = [entry.gain.mean for entry in measured]
    floors = [_mean(entry.floor) for entry in measured]
    distance = sum(_mean(entry.real) - floor for entry, floor in zip(measured, floors, strict=True))
    unnoised = [
        _mean(entry.unnoised) - floor if entry.unnoised else float("nan")
        for entry, floor in zip(measured, floors, strict=True)
    ]
    return Summary(
        settings=len(gains),
        gain=float(np.mean(gains)),
        least=min(gains),
        most=max(gains),
        over_without=float(
            np.mean([_paired(entry.file, entry.without).mean for entry in measured])
        ),
        over_release=float(
            np.mean([_paired(entry.file, entry.release).mean for entry in measured])
        ),
        closed=sum(gains) / distance,
        below=sum(gain < -NOTICED for gain in gains),
        unnoised=float(np.mean(unnoised)),
    )


def sure_gains(study: Study) -> dict[tuple[str, Setting], bool]:
    """Return the gains that differ from 0 after Holm's adjustment over both students and all settings."""
    keys = [(student, setting) for student in STUDENTS for setting in study[student]]
    adjusted_p = adjusted([study[student][setting].gain.p for student, setting in keys])
    return {key: p is not None and p < CERTAIN for key, p in zip(keys, adjusted_p, strict=True)}


# --- tables
Line = Sequence[str]
"""The columns of a row."""


def table_of(head: Line, rows: Sequence[Line]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [
        f"|{'|'.join(f' {column} ' if column else ' ' for column in line)}|"
        for line in (head, *rows)
    ]
    return [lines[0], f"|{'---|' * len(head)}", *lines[1:]]


def _with_interval(difference: Difference) -> str:
    if difference.low is None:
        return f"{difference.mean:+.3f}"
    return f"{difference.mean:+.3f} ± {difference.mean - difference.low:.3f}"


REAL = "real (NOT PRIVATE)"


def exported_table(study: Study) -> list[str]:
    """Return the table of 600 texts at 300 and 1,000 records and epsilon 1 and 4."""
    of_student = ("best floor", "file", "gain", REAL)
    head = ["data", "records", "epsilon", *_columns(of_student)]
    certain = sure_gains(study)
    rows = []
    for setting in study["head"]:
        data, records, epsilon = setting
        if not is_shown(setting):
            continue
        row = [data, str(records), f"{epsilon:g}"]
        for student in STUDENTS:
            entry = study[student][setting]
            gain = _with_interval(entry.gain)
            if certain[student, setting]:
                gain += "*"
            row += [
                f"{_mean(entry.floor):.3f}",
                f"{_mean(entry.file):.3f}",
                gain,
                f"{_mean(entry.real):.3f}",
            ]
        rows.append(row)
    return table_of(head, rows)


def is_shown(setting: Setting) -> bool:
    """Return True for a setting in the table of 600 texts."""
    return setting[1] in {300, 1000} and setting[2] in {1.0, 4.0}


def _columns(names: Line) -> list[str]:
    """Return the columns of both students; the first of each names it."""
    return [
        f"{student}: {name}" if number == 0 else name
        for student in STUDENTS
        for number, name in enumerate(names)
    ]


def more_table(by_size: Mapping[int, Study]) -> list[str]:
    """Return the table of more texts; columns list the sizes that were measured."""
    head = [
        "data",
        "records",
        "epsilon",
        *_columns(("best floor", "file", "2,000 minus 600", "real")),
    ]
    rows = []
    for setting in by_size[SIZES[0]]["head"]:
        data, records, epsilon = setting
        row = [data, str(records), f"{epsilon:g}"]
        for student in STUDENTS:
            entries = [study[student][setting] for study in by_size.values()]
            row.append(" / ".join(f"{_mean(entry.floor):.3f}" for entry in entries))
            row.append(" / ".join(f"{_mean(entry.file):.3f}" for entry in entries))
            row.append(_with_interval(_paired(entries[1].file, entries[0].file)))
            row.append(f"{_mean(entries[0].real):.3f}")
        rows.append(row)
    return table_of(head, rows)


def summary_table(by_size: Mapping[int, Study]) -> list[str]:
    """Return the means of the study of more texts over its settings."""
    head = ["", "600 texts", "2,000", "6,000", "2,000, epsilon 1", "epsilon 4"]
    columns: dict[str, list[Summary]] = {}
    for student in STUDENTS:
        columns[student] = [summary(list(study[student].values())) for study in by_size.values()]
        default = by_size[DEFAULT_SIZE][student]
        for epsilon in (1.0, 4.0):
            columns[student].append(
                summary([entry for setting, entry in default.items() if setting[2] == epsilon])
            )
    sure = [str(sum(sure_gains(study).values())) for study in by_size.values()]
    number = sum(len(places) for places in by_size[DEFAULT_SIZE].values())
    rows = [
        ["head: gain, points", *_gains(columns["head"])],
        [
            "part of the distance to real records",
            *(f"{100 * column.closed:.0f} %" for column in columns["head"]),
        ],
        [
            "places more than a point below the floor",
            *(str(column.below) for column in columns["head"]),
        ],
        ["head: gain unnoised", *_unnoised(columns["head"])],
        ["words: gain, points", *_gains(columns["words"])],
        ["words: gain unnoised", *_unnoised(columns["words"])],
        [f"gains that differ from 0 after Holm, of {number}", *sure, "", ""],
    ]
    return table_of(head, rows)


def _gains(columns: Sequence[Summary]) -> list[str]:
    return [f"{_points(column.gain)} {_reach(column)}" for column in columns]


def _unnoised(columns: Sequence[Summary]) -> list[str]:
    return [_points(column.unnoised) for column in columns]


def _points(part: float) -> str:
    return f"{100 * part:+.1f}"


def unnamed_table(cells: pd.DataFrame) -> list[str]:
    """Return the table of classes whose names say nothing."""
    head = [
        "data",
        "records",
        "epsilon",
        "head: without",
        "means",
        "zero-shot",
        "file",
        "file - means",
        "real",
    ]
    head += ["words: without", "zero-shot", "file", "file - zero-shot", "real"]
    rows = []
    for (data, records, epsilon), group in cells.groupby(
        ["data", "records", "epsilon"], sort=False
    ):
        columns = _indexed(group).drop(columns="data")
        mean = {name: f"{value:.3f}" for name, value in columns.mean().items()}
        by_seed = {str(name): values.to_dict() for name, values in columns.items()}
        row = [TITLES[data], str(records), f"{epsilon:g}", mean["head without"], mean["means"]]
        row += [mean["head zero-shot"], mean["head file"]]
        row += [_with_interval(_paired(by_seed["head file"], by_seed["means"])), mean["head real"]]
        row += [mean["words without"], mean["words zero-shot"], mean["words file"]]
        row.append(_with_interval(_paired(by_seed["words file"], by_seed["words zero-shot"])))
        rows.append([*row, mean["words real"]])
    return table_of(head, rows)


def readme_table(few: Study, many: Study, unnamed: pd.DataFrame) -> list[str]:
    """Return the table of README: heads at 1,000 records and epsilon 1."""
    titles = list(LARGEST)
    classes = {TITLES[task]: len(load_task(task).labels) for task in TITLES}
    first, *others = titles
    head = ["accuracy of a new classifier, trained on", f"{first}, {classes[first]} classes"]
    head += [f"{title}, {classes[title]}" for title in others]
    setting = README_SETTING
    entries = [few["head"][title, *setting] for title in titles]
    records, epsilon = setting
    at_setting = (unnamed["records"] == records) & (unnamed["epsilon"] == epsilon)
    so_called = unnamed[at_setting].drop(columns="seed").groupby("data").mean()
    so_called.index = so_called.index.map(TITLES)
    rows: list[tuple[str, Sequence[float], str]] = [
        ("nothing: the largest class", list(LARGEST.values()), ""),
        (
            "texts of the same model without private records, the better labels",
            [_mean(entry.without) for entry in entries],
            "nothing to protect",
        ),
        (
            "no text: class means of the release",
            [_mean(entry.release) for entry in entries],
            "epsilon 1",
        ),
        (
            "**the exported texts, labelled by the release (`guidance: auto`, default)**",
            [_mean(entry.file) for entry in entries],
            "**epsilon 1**",
        ),
        (
            "the same with 2,000 texts, as `wasp init` writes them for ten classes",
            [_mean(many["head"][title, *setting].file) for title in titles],
            "epsilon 1",
        ),
        ("the private records themselves", [_mean(entry.real) for entry in entries], "none"),
    ]
    so_called_rows = (
        (
            "classes called queue_1, queue_2, ...: texts without private records",
            "head without",
            "nothing to protect",
        ),
        ("classes so called: class means of the release", "means", "epsilon 1"),
        ("classes so called: the exported texts", "", "epsilon 1"),
    )
    for about, column, privacy in so_called_rows:
        columns = [column or file_of_run(classes[title]) for title in titles]
        cells = zip(titles, columns, strict=True)
        rows.append((about, [float(so_called.loc[cell]) for cell in cells], privacy))
    lines = []
    for about, values, privacy in rows:
        mark = "**" if about.startswith("**") else ""
        lines.append([about, *(f"{mark}{100 * value:.0f} %{mark}" for value in values), privacy])
    return table_of([*head, "privacy"], lines)


# --- forecast
def forecast(study: Study, texts: int | None = None) -> str:
    """Return the places that an index of at least 8 opens, as a file of measurements; `texts`: an extra column."""
    lines = []
    for (data, records, epsilon), entry in study["head"].items():
        classes = _classes(data)
        index = index_of(records, classes, epsilon)
        if index < CLOSED:
            continue
        about = _about(data, classes, records, epsilon)
        if texts:
            about["texts"] = texts
        lines.append(
            about
            | {
                "zero_shot": round(_mean(entry.without), 3),
                "file": round(_mean(entry.file), 3),
                "gain": round(entry.gain.mean, 4),
            }
        )
    return _yaml(lines)


def unnamed_forecast(cells: pd.DataFrame) -> str:
    """Return the places with unnamed classes, of data sets with classes of equal size."""
    lines = []
    for (task, records, epsilon), group in cells.groupby(
        ["data", "records", "epsilon"], sort=False
    ):
        data = TITLES[task]
        if data not in {"Banking", "DBPedia", "IMDb"}:
            continue
        classes = _classes(data)
        mean = group.mean(numeric_only=True)
        lines.append(
            _about(data, classes, records, epsilon)
            | {
                "zero_shot": round(float(mean["head without"]), 3),
                "file": round(float(mean[file_of_run(classes)]), 3),
                "means": round(float(mean["means"]), 3),
            }
        )
    return _yaml(lines)


def file_of_run(classes: int) -> str:
    """Return the column of the texts that a run exports where class names say nothing."""
    if classes >= LEAST_CLASSES:
        return "head file"
    # Without topics: their gain begins at this number.
    return "head zero-shot"


def index_of(records: int, classes: int, epsilon: float) -> float:
    """Return the index of a release at delta 1e-5."""
    noise = calibrate_sums(DensityPrivacy(epsilon, 1e-5))
    return UseDecision(records, classes, noise.scale).index


def _about(data: str, classes: int, records: int, epsilon: float) -> dict[str, str | int | float]:
    index = round(index_of(records, classes, epsilon), 2)
    return {
        "data": data,
        "classes": classes,
        "rows": int(records),
        "epsilon": float(epsilon),
        "index": index,
    }


def _classes(title: str) -> int:
    # "IMDb, large" has other texts of the same task.
    tasks = {name: task for task, name in TITLES.items()}
    return len(load_task(tasks[title.split(",")[0]]).labels)


def _yaml(lines: Sequence[Mapping[str, object]]) -> str:
    rows = [
        yaml.safe_dump(dict(line), default_flow_style=True, sort_keys=False, width=1000)
        for line in lines
    ]
    return "".join(f"- {row}" for row in rows)


# --- files
Tables = Mapping[Path, Sequence[tuple[str, list[str]]]]
"""Tables by document, each with the first words of a line above it."""


@dataclass(frozen=True, slots=True)
class Written:
    """Contents of the stored cells: whole files, tables of documents, and phrases that prose states."""

    files: Mapping[Path, str]
    tables: Tables
    phrases: Mapping[Path, Sequence[str]]

    def texts(self) -> dict[Path, str]:
        """Return the texts of all files; raises ValueError for a document without room for a table."""
        return {**self.files, **with_tables(self.tables)}

    def missing(self) -> list[str]:
        """Return the phrases that their documents do not state."""
        return [
            f"{path.name}: {phrase}"
            for path, phrases in self.phrases.items()
            for phrase in phrases
            if phrase not in " ".join(path.read_text(encoding="utf-8").split())
        ]


def with_tables(tables: Tables) -> dict[Path, str]:
    """Return the texts of documents with their tables; raises ValueError for one without room for a table."""
    documents = {}
    for path, placed in tables.items():
        text = path.read_text(encoding="utf-8")
        for above, lines in placed:
            text = with_table(text, above, lines)
        documents[path] = text
    return documents


def with_table(text: str, above: str, table: Sequence[str]) -> str:
    """Return a document with another table in place of the first one below a line that begins with `above`."""
    lines = text.splitlines()
    places = [number for number, line in enumerate(lines) if line.startswith(above)]
    if len(places) != 1:
        raise ValueError(f"{len(places)} lines begin with {above!r}: exactly one has to")
    start = next(number for number in range(places[0], len(lines)) if lines[number].startswith("|"))
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


def summarise() -> Written:
    """Return tables, measurements and figures from the stored cells."""
    few_cells, more_cells, unnamed = (
        pd.read_parquet(CELLS / f"{name}.parquet")
        for name in ("exported_texts", "more_texts", "neutral_labels")
    )
    few = read_exported(few_cells)
    own = {size: read_more(more_cells, "own", size) for size in SIZES}
    neutral = {size: read_more(more_cells, "neutral", size) for size in SIZES}
    return Written(
        files={
            MEASURED: forecast(few),
            MORE_MEASURED: forecast(own[DEFAULT_SIZE], DEFAULT_SIZE),
            UNNAMED_MEASURED: unnamed_forecast(unnamed),
        },
        tables={
            README: [("## What it gains", readme_table(few, own[DEFAULT_SIZE], unnamed))],
            RESULTS: [
                ("## Study", exported_table(few)),
                ("## More texts", more_table(own)),
                ("Means over the 22 places", summary_table(own)),
                ("The same with classes called queue_1", more_table(neutral)),
                ("## Labels that only the records know", unnamed_table(unnamed)),
            ],
        },
        phrases=_phrases(few, own[DEFAULT_SIZE]),
    )


def _phrases(few: Study, many: Study) -> dict[Path, list[str]]:
    """Return the figures that prose states."""
    opened = [
        setting
        for setting in few["head"]
        if index_of(setting[1], _classes(setting[0]), setting[2]) >= CLOSED
    ]
    head = summary([few["head"][setting] for setting in opened])
    shown = [setting for setting in few["head"] if is_shown(setting)]
    in_table = {
        student: summary([few[student][setting] for setting in shown]) for student in STUDENTS
    }
    heads = summary(list(many["head"].values()))
    words = summary(list(many["words"].values()))
    precise = summary([entry for setting, entry in many["words"].items() if setting[2] == 4.0])
    reach = _reach(head)
    gain_of_words = f"{100 * in_table['words'].gain:.1f} point over its best floor"
    return {
        README: [
            f"Over {head.settings} settings of six data sets, the exported texts are {100 * head.gain:.1f} points "
            f"above the best floor on average {reach} and {100 * head.over_without:.1f} above texts without private "
            f"records. In {head.below} settings they are more than a point *below* it",
            f"A classifier of words (TF-IDF) gains {gain_of_words}.",
            f"in {heads.settings} settings, the gains are {100 * heads.gain:.1f} points {_reach(heads)} and "
            f"{100 * words.gain:.1f} for words ({100 * precise.gain:.1f} at epsilon 4)",
        ],
        RESULTS: [
            f"Over the {head.settings} places (data, records, epsilon) that have an index of at least 8, the `head` of "
            f"the file gains **{100 * head.gain:.1f} points over the best floor** {reach}, "
            f"{100 * head.over_without:.1f} over the better of both labels without private data and "
            f"{100 * head.over_release:.1f} over the class means. In the {len(shown)} places of the table it closes "
            f"{100 * in_table['head'].closed:.0f} % of the distance from the best floors to real records.",
            f"`words` gains {gain_of_words} in the table, and {100 * in_table['words'].over_without:.1f} over labels "
            "without private data alone",
            f"with the same 2,000 texts; for `words` they gain {100 * words.unnoised:.1f} points",
        ],
    }


def _reach(of_student: Summary) -> str:
    return f"({_points(of_student.least)} to {_points(of_student.most)})"


def main() -> None:
    """Write the files; raises SystemExit if a document does not state a figure."""
    result = summarise()
    for path, text in result.texts().items():
        write_text_whole(path, text)
    if missing := result.missing():
        lines = "\n".join(missing)
        raise SystemExit(f"These sentences are not there, correct the documents by hand:\n{lines}")
    sys.stdout.write(
        f"{len(result.files)} files of measurements and the tables of "
        f"{len(result.tables)} documents agree with {CELLS.relative_to(ROOT)}\n"
    )


if __name__ == "__main__":
    main()
