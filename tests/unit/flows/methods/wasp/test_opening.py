"""Decision and forecast of `guidance: auto`, by public numbers and by measurements."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from flows.cli import start
from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.opening import (
    CLOSED,
    UNNAMED_MEASURED,
    WORTH,
    UseDecision,
    advice_text,
    least_index,
    measured_cells,
    opening_lines,
    remedy_line,
    with_zero_shot,
)
from tasks.accounting.integer_noise import calibrate_sums
from tasks.private.density.promise import DensityPrivacy
from tests.support.paths import ROOT
from tests.support.registered import DEMO

SIGMA = 3.73
"""Noise of a density at epsilon 1 and delta 1e-5."""
EVERY = (2, 3, 5, 6, 10, 14, 40)


def sigma_of(epsilon: float) -> float:
    return calibrate_sums(DensityPrivacy(epsilon, 1e-5)).sigma


@pytest.mark.parametrize(
    ("rows", "classes", "opens"),
    [
        (100, 10, False),
        (300, 10, True),
        (298, 10, False),
        (100, 3, True),
        (100, 2, False),
        (2000, 2, True),
    ],
)
def test_index_and_measured_gain_decide(rows: int, classes: int, opens: bool) -> None:
    opening = UseDecision(rows, classes, SIGMA)
    assert opening.opens == opens
    assert opening.to_json()["map"] == ("cosine" if opens else "none")
    assert ("keep your budget" in "\n".join(opening_lines(opening))) == (not opens)


@pytest.mark.parametrize("classes", EVERY)
def test_more_rows_and_a_larger_epsilon_never_lower_the_forecast_or_close_the_rows(
    classes: int,
) -> None:
    epsilons = [sigma_of(epsilon) for epsilon in (1.0, 2.0, 4.0, 5.0, 8.0)]
    paths = [[UseDecision(rows, classes, SIGMA) for rows in range(50, 3000, 50)]]
    paths += [
        [UseDecision(rows, classes, sigma) for sigma in epsilons] for rows in (100, 750, 1000)
    ]
    for before, after in (pair for path in paths for pair in pairwise(path)):
        assert after.opens >= before.opens
        assert all(more >= less for less, more in zip(before.gains, after.gains, strict=True))


@pytest.mark.parametrize("classes", EVERY)
def test_remedies_open_the_rows_and_less_does_not(classes: int) -> None:
    assert least_index(classes) >= CLOSED
    opening = UseDecision(30, classes, SIGMA)
    rows, fewer = opening.needed_rows(), opening.most_classes()
    assert UseDecision(rows, classes, SIGMA).opens
    assert not UseDecision(rows - 1, classes, SIGMA).opens
    if fewer is not None:
        assert UseDecision(30, fewer, SIGMA).opens
    epsilon = opening.needed_epsilon(1.0, 1e-5, 1.0)
    if epsilon is not None:
        assert UseDecision(30, classes, sigma_of(epsilon)).opens
        assert not UseDecision(
            30, classes, sigma_of(epsilon - (0.1 if epsilon < 10 else 1.0))
        ).opens


def test_the_forecast_starts_with_its_range_and_names_the_best_floor() -> None:
    line, floor = opening_lines(UseDecision(120, 6, sigma_of(4.0)))[1:]
    assert line.startswith("expect        +4 to +19 points of accuracy over texts alone")
    assert "depends on how good the texts already are" in line
    assert "+2.0 on average of 79 measurements with 600 texts each, +3.4 of 20 with 2,000" in floor
    assert floor.endswith("none is of medical texts")


def test_an_index_of_persons_counts_persons() -> None:
    opening = UseDecision(300, 8, sigma_of(1.0), protects="person")
    assert "= 300 persons / (8 classes" in opening_lines(opening)[0]
    assert UseDecision.from_json(opening.to_json()) == opening
    assert " persons. Or " in remedy_line(
        UseDecision(20, 8, sigma_of(1.0), protects="person"), None
    )


def test_good_texts_lower_the_forecast_and_no_student_passes_100_percent() -> None:
    plan: dict[str, Any] = {"opening": UseDecision(120, 6, sigma_of(4.0)).to_json()}
    plan["lines"] = opening_lines(UseDecision(120, 6, sigma_of(4.0)))
    informed = with_zero_shot(plan, 0.80)
    assert informed["lines"][1].startswith("expect        +3 to +6 points")
    assert "texts alone, 80.0 %" in informed["lines"][1]
    assert UseDecision(10**6, 10, 1.0, 0.99).gains[1] <= 0.01


def test_every_gain_is_over_a_floor_that_is_at_least_zero_shot() -> None:
    cells = measured_cells()
    assert len(cells) == 79
    for cell in cells:
        assert cell["gain"] <= cell["file"] - cell["zero_shot"] + 0.0015


def test_two_classes_need_an_index_at_which_a_release_was_worth_its_budget() -> None:
    assert 4 * CLOSED < least_index(2) < math.inf
    assert sum(UseDecision(2000, 2, SIGMA).gains) / 2 >= WORTH


def test_the_advice_ends_with_the_lines_of_a_configuration() -> None:
    numbers: dict[str, float | None] = {"rows": 1000, "classes": 10, "epsilon": 1.0, "delta": 1e-5}
    assert "private.declared_rows: 1000" in advice_text(start.advise(**numbers))
    closed = advice_text(start.advise(**numbers | {"rows": 100}))
    assert "to open them: 299 rows, or at most 3 classes, or privacy.epsilon 3.4" in closed
    assert "private: null" in closed
    levels = start.advise(rows=300, classes=10, range_=True)
    assert [line.split()[1] for line in levels.to_text(levels).splitlines()[2:7]] == [
        "closed",
        "-1",
        "-1",
        "+0",
        "+2",
    ]
    assert [f"{row['epsilon']:g}" for row in levels["range"] if row["opens"]] == [
        "1",
        "2",
        "4",
        "8",
    ]


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"rows": None, "classes": 2, "epsilon": 1.0, "delta": 1e-5}, "--rows"),
        ({"rows": 10, "classes": 1, "epsilon": 1.0, "delta": 1e-5}, "--classes"),
        ({"rows": 10, "classes": 2, "epsilon": float("inf"), "delta": 1e-5}, "--epsilon"),
    ],
)
def test_a_number_that_is_missing_or_not_allowed_is_named(
    numbers: dict[str, float | None], field: str
) -> None:
    with pytest.raises(ConfigError, match=field):
        start.advise(**numbers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "demo", "rows": 500}, "--rows: .* or write: --set private.declared_rows=500"),
        ({"name": "demo", "rows": 1234567}, "private.declared_rows=1234567$"),
        (
            {"name": "demo", "classes": 5},
            "--classes: the configuration states it. Remove --classes$",
        ),
        ({"name": "demo", "epsilon": 2.0}, "or write: --set privacy.epsilon=2"),
        ({"name": "demo", "delta": 1e-6}, "or write: --set privacy.delta=1e-06"),
        ({"rows": 10, "classes": 2, "epsilon": 1.0, "range_": True}, "Remove --range or --epsilon"),
        ({"rows": 10, "classes": 2, "epsilon": 1.0, "set_": ["seed=1"]}, "remove --set"),
    ],
)
def test_options_that_nothing_would_read_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start.advise(**options)


def test_another_language_leaves_the_decision_and_removes_the_numbers() -> None:
    english = UseDecision(300, 10, SIGMA)
    german = UseDecision(300, 10, SIGMA, language="German (de)")
    assert german.opens == english.opens
    assert german.gains is None
    assert UseDecision.from_json(german.to_json()) == german
    assert "language" not in english.to_json()
    text = "\n".join(opening_lines(german))
    assert "expect        not known: all measurements are of English texts" in text
    assert "points" not in text
    plan = {"opening": german.to_json(), "lines": opening_lines(german)}
    assert with_zero_shot(plan, 0.7)["lines"] == opening_lines(german)


def test_unnamed_classes_leave_the_decision_and_have_measurements_of_their_own() -> None:
    named = UseDecision(300, 10, SIGMA)
    unnamed = UseDecision(300, 10, SIGMA, unnamed=True)
    assert unnamed.opens == named.opens
    assert UseDecision.from_json(unnamed.to_json()) == unnamed
    assert "unnamed" not in named.to_json()
    measured = ["Banking (10 classes)", "DBPedia (14 classes)", "IMDb (2 classes)"]
    assert unnamed.to_json()["measured"] == measured
    assert unnamed.gains is not None
    for of_means, of_file in zip(unnamed.gains_of_means, unnamed.gains, strict=True):
        assert of_means > of_file
    line, means = opening_lines(unnamed)[1:]
    assert line.startswith("expect        +9 to +38 points of accuracy over texts alone")
    assert "+12 to +64 for the class means of the release (release_head of the bundle)" in means
    assert opening_lines(UseDecision(30, 10, SIGMA, unnamed=True)) == opening_lines(
        UseDecision(30, 10, SIGMA)
    )


def test_measurements_of_unnamed_classes_are_the_means_of_the_stored_cells() -> None:
    cells = pd.read_parquet(ROOT / "docs/results/cells/neutral_labels.parquet")
    # Of unbalanced classes the largest one alone is far above the texts without private data.
    names = {"banking10": "Banking", "dbpedia14": "DBPedia", "imdb": "IMDb"}
    cells = cells[cells["data"].isin(names)].copy()
    # A run of a few classes finds no topics.
    cells["file"] = cells["head file"].where(cells["data"] != "imdb", cells["head zero-shot"])
    columns = {"head without": "zero_shot", "file": "file", "means": "means"}
    means = cells.groupby(["data", "records", "epsilon"])[list(columns)].mean().round(3)
    stored = {
        (cell["data"], cell["rows"], cell["epsilon"]): cell
        for cell in measured_cells(UNNAMED_MEASURED)
    }
    assert len(stored) == len(means)
    for (data, rows, epsilon), values in means.iterrows():
        cell = stored[names[data], rows, epsilon]
        assert [cell[name] for name in columns.values()] == pytest.approx(values.tolist())
        index = rows / (cell["classes"] * sigma_of(epsilon))
        assert cell["index"] == pytest.approx(index, rel=1e-2)


@pytest.mark.parametrize(
    ("labels", "unnamed"),
    [
        ([{"name": "queue_1"}, {"name": "queue_2"}], True),
        ([{"name": "17"}, {"name": "18", "description": "lost cards"}], False),
        ([{"name": "refund"}, {"name": "delivery"}], False),
    ],
    ids=str,
)
def test_a_task_file_says_whether_its_classes_are_named(
    tmp_path: Path, labels: list[dict[str, str]], unnamed: bool
) -> None:
    task = tmp_path / "task.yaml"
    task.write_text(yaml.safe_dump({"name": "desk", "item": "message", "labels": labels}))
    loaded = load_config(WaspConfig, DEMO, [f"task={task}"])
    assert loaded.has_unnamed_classes == unnamed


@pytest.mark.parametrize(
    ("changes", "finds"),
    [
        ({}, True),
        ({"language": "de"}, True),
        ({"language": "sw"}, False),
        ({"guidance": "votes"}, False),
        ({"name": "refund"}, False),
        ({"classes": 5}, False),
    ],
    ids=str,
)
def test_topics_need_a_density_terms_of_the_language_and_many_unnamed_classes(
    tmp_path: Path, changes: dict[str, Any], finds: bool
) -> None:
    task = tmp_path / "task.yaml"
    names = [f"queue_{number}" for number in range(1, changes.get("classes", 6))]
    labels = [{"name": name} for name in (*names, changes.get("name", "17"))]
    language = changes.get("language", "en")
    content = {"name": "desk", "item": "message", "language": language, "labels": labels}
    task.write_text(yaml.safe_dump(content))
    options = [f"task={task}", f"method.guidance={changes.get('guidance', 'auto')}"]
    assert load_config(WaspConfig, DEMO, options).finds_topics == finds
