"""A comparison: methods in rows, settings in columns, every cell a run of its own, one table with published figures.

A cell that was carried out before is read back; one that fails does not stop the others.
"""

# Annotations are values here, not words: Prefect sends a served flow to another process without what only they name.
from typing import Any

from prefect import flow

from flows.compare.config import CompareConfig
from flows.compare.run import carry_out, compare_name, comparing
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.compare import show_comparison
from tasks.prefect.runtime import run_step


@flow(name="compare", flow_run_name=compare_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def compare(config: CompareConfig) -> dict[str, Any]:
    """Carry out every cell of a matrix and put the results beside each other and beside published figures.

    Args:
        config: rows, columns, seeds, the reference row, metrics and workers.

    Returns:
        What summary.json holds and `wasp compare --json` prints. Cells that failed are in it, with their errors.
    """
    with comparing(config) as run:
        # every cell is a run with its own plan, its own lines in the budget book, its own report
        answers = [carry_out.submit(run, cell) for cell in run.open]
        result = run.finish([one.result() for one in answers])
        run_step(show_comparison, result["title"], run.tables)
    return result
