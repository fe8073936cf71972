"""Rows that are public: exactly M of them, by the run's seed, said in form, plan and report; private ones as before."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.config.extends import merge, read_layers
from flows.engine.plan import planned
from flows.engine.prepare import guarantee_of
from tasks.private.rows.rows import open_rows
from tasks.reporting import terminal as words
from tests.support.paths import ROOT
from tests.support.runs.prepared_run import config, start

PUBLIC = {"rows": 60, "rows_are_public": True}


def labels(home: Path, seed: int, private: dict[str, Any] = PUBLIC) -> dict[str, tuple[str, ...]]:
    tools = start(home, private=private, execution={"seed": seed}).tools
    rows = open_rows(tools.zone, tools.private, tools.run_name.fingerprint)
    return dict(zip(rows.texts, rows.labels, strict=True))


def test_a_run_draws_exactly_so_many_and_another_seed_others(tmp_path: Path) -> None:
    first, again, other = (labels(tmp_path / "home", seed) for seed in (0, 0, 1))
    for drawn in (first, other):
        assert sorted(map(list(drawn.values()).count, set(drawn.values()))) == [10] * 6
    assert first == again
    assert set(first) != set(other)


def test_classes_of_a_run_are_unbalanced_if_a_dirichlet_draw_is_configured(tmp_path: Path) -> None:
    private = PUBLIC | {"class_alpha": 1.0}
    first, again, other = (
        Counter(labels(tmp_path / "home", seed, private).values()) for seed in (0, 0, 1)
    )
    assert first == again != other
    assert first.total() == 60
    assert len(first) < 6, "with 20 rows a class, two classes of this draw have none"
    lines = words.plan(planned(config(private=private)))
    assert "rows are public: exactly 60 are drawn" in lines
    assert "unbalanced classes by Dirichlet(1), at least 2 to 1" in lines


def test_private_rows_are_chosen_regardless_of_the_seed_of_the_run(tmp_path: Path) -> None:
    assert labels(tmp_path / "home", 0, {"rows": 60}) == labels(tmp_path / "home", 1, {"rows": 60})


def test_noise_is_that_of_the_drawn_rows_and_a_fixed_number_of_private_ones_costs_more() -> None:
    every, exact, public = (
        guarantee_of(config(private=private)).noise for private in ({}, {"rows": 60}, PUBLIC)
    )
    assert exact.sigma == pytest.approx(every.sigma * 2**0.5, rel=1e-3)
    assert public.sigma == every.sigma
    replaced = guarantee_of(config(private=PUBLIC, privacy={"adjacency": "replace_one"})).noise
    assert replaced.sigma == exact.sigma


def test_a_setting_that_is_left_out_makes_no_other_run() -> None:
    written = config(private={"rows": 60}).model_dump(mode="json")
    assert "rows_are_public" not in written["private"]
    assert not {"learning_rate", "batch", "max_length"} & set(written["student"])


def test_configurations_of_the_papers_draw_exactly_m_rows() -> None:
    for path in (ROOT / "deployments" / "configs").rglob("*.yaml"):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        for setting in values.get("settings", {"": values}):
            config = Path(f"{path}#{setting}") if setting else path
            private = merge(read_layers(config)).get("private") or {}
            assert "of" not in private, config
            assert private.get("rows_are_public", False) == ("rows" in private), config
