"""Measure the speed of the models of a comparison, so that its plan states the time.

Only models that cost nothing by the call are measured: those of this machine and of a user's own endpoint. Their texts
are the first of a run and are cached for it.
"""

from connectors.interfaces.errors import FinalError, TemporaryError
from flows.compare.cells import Cell, cells_of, split_cells
from flows.compare.config import CompareConfig
from flows.compare.preflight import inspect_cells
from flows.config.models import Plm
from flows.engine.plan import measured_lengths
from flows.engine.preview import measure_speed
from flows.engine.tools import RunTools
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts
from flows.runtime.terminal_progress import display


def measure_models(config: CompareConfig) -> None:
    """Let each model without a price that has no measured speed write a few texts; models of cells with problems wait.

    A model that fails is named, and its time stays unknown.
    """
    open_ = split_cells(open_artifacts(state_folder()), cells_of(config))[1]
    by_cell = inspect_cells(config, open_).by_cell
    done: set[str] = set()
    for cell in open_:
        if by_cell[cell.key]:
            continue
        for plm in cell.config.models:
            # Without the name of its run: cells share models.
            key = repr(plm)
            if key not in done:
                done.add(key)
                _measure(cell, plm)


def _measure(cell: Cell, plm: Plm) -> None:
    # Opened for each model: those before it are freed.
    tools = RunTools(cell.config, state_folder())
    price = plm.stated_price
    is_paid = price is not None and max(price.input, price.output) > 0
    if is_paid or getattr(tools.model(plm.name), "is_at_vendor", False):
        return
    if plm.name in measured_lengths(tools):
        return
    try:
        measure_speed(cell.config, state_folder(), plm.name)
    except (FinalError, TemporaryError) as error:
        display().say(f"warning: model '{plm.name}' was not measured: {error}")
