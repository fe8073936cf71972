"""The comparison flow."""

from flows.compare.config import CompareConfig
from flows.method import FlowEntry

ENTRY = FlowEntry(
    name="compare",
    flow_path="flows.compare.flow.compare",
    config=CompareConfig,
    planner="flows.compare.values.planned",
    checker="flows.compare.preflight.checked_cells",
    summary="carries out methods, settings and seeds as a matrix and puts the results beside published figures",
    text_module="flows.compare.text",
    resumable=False,
)
