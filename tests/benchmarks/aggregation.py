"""Votes to weights and examples, against the programs that people join tables with."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tasks.selection.examples import select
from tasks.selection.weights import weigh
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, compare

CLASSES, MODELS, TOP = 10, 6, 40
BEST = """
with votes as (select * from release join samples using (sample_id))
select * from votes qualify row_number() over (partition by label order by near desc, sample_id) <= {top}
union all
select * from votes qualify row_number() over (partition by label order by far desc, sample_id) <= {top}
"""


def aggregation(tiny: bool) -> list[Line]:
    """A million texts of which 200,000 stood for election: votes by model, the best and worst of each class."""
    texts, voted, rounds = (1000, 200, 1) if tiny else (1_000_000, 200_000, 5)
    samples, release = tables(texts, voted)
    plms = sorted(samples["plm"].unique())
    writers = samples[["sample_id", "label", "plm"]].astype({"label": "category", "plm": "category"})
    case = f"{texts} texts, {voted} votes"

    def grouped() -> Any:
        both = release.merge(writers, on="sample_id")
        return both.groupby(["label", "plm"], observed=True)["near"].agg(["sum", "count"])

    note = {"pandas merge, groupby": "both on categories, ours by model"}
    weights = compare("aggregation", case, lambda: weigh(release, writers, plms), {"pandas merge, groupby": grouped},
                      rounds, note)  # fmt: skip
    found = peers(samples, release)
    notes = dict.fromkeys(found, "ours looks for repeated texts as well")
    best = compare("aggregation", case, lambda: select(release, samples, TOP), found, rounds, notes)
    rivals = sorted((one for one in best if one.against != "pandas"), key=lambda one: one.peer_seconds)
    reached = [toward(one, "P20-top") if one in rivals[:1] else one for one in best]
    return [*(toward(one, "P20-group") for one in weights), *reached]


def tables(texts: int, voted: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return samples and a release of some of them."""
    generator = np.random.default_rng(0)
    samples = pd.DataFrame(
        {
            "sample_id": np.arange(texts),
            "label": np.array([f"class {number}" for number in range(CLASSES)])[generator.integers(0, CLASSES, texts)],
            "plm": np.array([f"model {number}" for number in range(MODELS)])[generator.integers(0, MODELS, texts)],
            "text": [f"text number {number}" for number in range(texts)],
        }
    )
    ids = np.sort(generator.choice(texts, voted, replace=False))
    votes = {side: generator.integers(-50, 5000, voted) for side in ("near", "far")}
    return samples, pd.DataFrame({"sample_id": ids, **votes})


def peers(samples: pd.DataFrame, release: pd.DataFrame) -> dict[str, Callable[[], Any]]:
    """Return the best of each class by pandas, and by what else is installed."""

    def pandas() -> Any:
        votes = release.merge(samples, on="sample_id")
        ranked = (votes.sort_values(side, ascending=False, kind="stable") for side in ("near", "far"))
        return [one.groupby("label").head(TOP) for one in ranked]

    found: dict[str, Callable[[], Any]] = {"pandas": pandas}
    if importlib.util.find_spec("duckdb"):
        import duckdb

        connection = duckdb.connect()
        connection.register("samples", samples)
        connection.register("release", release)
        found["duckdb"] = lambda: connection.sql(BEST.format(top=TOP)).to_arrow_table()
    if importlib.util.find_spec("polars"):
        import polars

        left, right = polars.from_pandas(release), polars.from_pandas(samples)

        def by_polars() -> Any:
            votes = left.join(right, on="sample_id")
            return [votes.group_by("label").agg(polars.all().top_k_by(side, TOP)) for side in ("near", "far")]

        found["polars"] = by_polars
    return found
