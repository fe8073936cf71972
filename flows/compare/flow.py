"""Comparison flow: run a matrix and compare it with published figures.

Finished cells are reused; a failed cell does not stop the others.
"""

# No postponed annotations: Prefect sends a served flow to another process and needs their values.

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from connectors.interfaces.json_values import Json
from flows.compare.config import CompareConfig
from flows.compare.run import compare_name, comparing, run_cell
from flows.runtime.task_runners import ConfiguredTaskRunner


@flow(
    name="compare",
    flow_run_name=compare_name,
    validate_parameters=True,
    task_runner=ConfiguredTaskRunner(),
)
def compare(config: CompareConfig) -> Json:
    """Run every cell of a matrix and compare the results with published figures.

    Args:
        config: rows, columns, seeds, the reference row, metrics and workers.

    Returns:
        The content of summary.json, as printed by `wasp compare --json`, including failed cells with their errors.
    """
    with comparing(config) as run:
        while cells := run.next_cells():
            # every cell is a run with its own plan, ledger entries and report
            futures = [run_cell.submit(run, cell) for cell in cells]
            run.add_answers(cells, [future.result() for future in futures])
        result = run.finish()
        create_markdown_artifact(run.tables, key="comparison", description=result["title"])
    return result
