"""Progress of a run: its releases, texts and measurements so far, shown on its page, in the terminal and in MLflow.

Methods only add to it; `flows.engine.record_of_run` reads it once at the end.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import LedgerError
from connectors.ledger.state import Entry, drawn_releases
from flows.engine.prepare import Prepared
from flows.engine.run_page import show_iteration
from flows.runtime.manifest import RunManifest
from flows.runtime.terminal_progress import display
from tasks.accounting.composition import epsilon_of
from tasks.accounting.guarantee import finite
from tasks.metrics.iteration_record import IterationRecord, line, record_iteration
from tasks.steps.values import TextTable, Weights


class RunProgress:
    """Collects releases, texts and measurements of a run, and what they cost.

    Attributes:
        releases: the releases drawn so far, in order.
        generated: the texts of all recorded iterations.
        iterations: the facts of all recorded iterations.
    """

    def __init__(self, prepared: Prepared, manifest: RunManifest, started: float) -> None:
        self.prepared = prepared
        self.tools = prepared.tools
        self.manifest = manifest
        self.started = started
        self.releases: list[ArtifactRef] = []
        self.generated: list[TextTable] = []
        self.iterations: list[IterationRecord] = []

    @property
    def seconds(self) -> float:
        """Duration of the run so far."""
        seconds = time.monotonic() - self.started
        if self.tools.config.uses_private_rows:
            # An exact duration depends on the number of private records, and reports are shared.
            return 10.0 * math.ceil(seconds / 10)
        return round(seconds, 1)

    @property
    def money(self) -> dict[str, float]:
        """Dollars spent by all attempts on all machines, and the estimated part (servers reported no tokens)."""
        cost_budget = self.tools.cost_budget
        if cost_budget is None:
            return {"dollars": 0.0, "dollars_estimated": 0.0}
        return {"dollars": cost_budget.spent, "dollars_estimated": cost_budget.estimated}

    def spent(self) -> list[Entry]:
        """Return the ledger entries that paid for the releases so far, in this run or in an earlier one.

        Earlier draws of this run in the same slots are included (texts were lost and the vote was charged again),
        because their results were seen too. Raises LedgerError when a release names no entry of the ledger.
        """
        name = self.tools.run_name
        if not name.dataset:
            return []
        paid = {self.tools.artifacts.info(release)["ledger_entry"] for release in self.releases}
        entries = self.tools.ledger.history(name.dataset)
        unknown = sorted(paid - {entry.hash for entry in entries})
        if unknown:
            raise LedgerError(
                f"Release {unknown[0][:12]} of run {name.run_id} is not in the privacy ledger of dataset "
                f"'{name.dataset}'. Restore the ledger, or delete the run's release.parquet to "
                "restore it from the ledger."
            )
        # A slot is one place of a run's plan: a second draw in it replaced lost texts.
        slots = {entry.slot for entry in entries if entry.hash in paid}
        return [
            entry
            for entry in drawn_releases(entries)
            if entry.hash in paid or (entry.run_id == name.run_id and entry.slot in slots)
        ]

    def loss(self, entries: Sequence[Entry]) -> float:
        """Return the composed epsilon of these entries; 0 without entries."""
        if not entries:
            return 0.0
        delta = self.prepared.guarantee.promise.delta
        return epsilon_of([entry.event for entry in entries], delta)

    def record(
        self,
        iteration: int,
        written: Sequence[TextTable],
        measured: Mapping[str, Any],
        weights: Weights,
        entries: Sequence[Entry],
    ) -> None:
        """Record an iteration and show it; `weights`: of the next one, `entries`: what the output so far has cost."""
        # A method hands in new texts or all texts so far: each counts once, in the order of writing.
        self.generated = list(dict.fromkeys([*self.generated, *written]))
        privacy = finite(self.loss(entries)), len(entries)
        facts = record_iteration(self.tools, iteration, written, measured, weights, privacy)
        self.iterations.append(facts)
        money = self.money
        state = f"iteration {iteration}  {line(facts, money['dollars'])}"
        show_iteration(facts, state)
        self.tools.tracker.metrics(facts.metrics(), iteration)
        display().say(state)
        spent = "NOT PRIVATE"
        if facts.epsilon is not None:
            spent = f"epsilon {facts.epsilon:.3g}"
        if money["dollars"]:
            spent += f" | ${money['dollars']:.4f}"
        display().status(iteration + 1, self.tools.config.method.iterations, spent)
        if money["dollars"]:
            # Stored after each iteration: a killed process cannot state its cost at the end.
            self.manifest.update(**money)
