"""The flow compare in the catalogue."""

from __future__ import annotations

from flows.compare.config import CompareConfig
from flows.engine.method import FlowEntry, Preset

ENTRY = FlowEntry(
    name="compare",
    flow_path="flows.compare.flow.compare",
    config=CompareConfig,
    planner="flows.compare.values.planned",
    summary="carries out methods, settings and seeds as a matrix and puts the results beside published figures",
    presets=(
        Preset("demo", "compare_here.yaml", "WASP, its ablations and rivals on the demo texts: 15 minutes."),
        Preset("imdb", "papers/compare_imdb_here.yaml", "Tables 1, 4 and 5 of the WASP paper, IMDb, recorded models."),
        Preset("paper", "papers/compare_table_1.yaml", "Table 1 of the WASP paper, by hub ids: an accelerator."),
    ),
    text_module="flows.compare.text",
    opens_rows=False,
    continued=False,
    asks_models=False,
)
