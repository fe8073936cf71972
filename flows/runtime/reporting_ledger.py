"""The privacy ledger of a flow run: each charge is followed by an event on the Prefect server."""

from collections.abc import Callable

from connectors.interfaces.ledger import ReleaseRequest, StoredRelease
from connectors.ledger.ledger import PrivacyLedger


class ReportingLedger(PrivacyLedger):
    """A ledger that emits one event for each charge, after it is stored; none for a release that is reused."""

    def release_once(
        self,
        request: ReleaseRequest,
        draw: Callable[[], bytes],
        prepare: Callable[[], object] | None = None,
    ) -> StoredRelease:
        """Release as the privacy ledger does; then queue the event of a charge."""
        stored = super().release_once(request, draw, prepare)
        if stored.reused:
            return stored
        # Not at the top: a command that plans opens the ledger too, and does not load Prefect.
        from prefect import runtime

        from flows.runtime.budget_events import emit_charge
        from tasks.prefect import page

        def report() -> None:
            budget = self.charged_budget(request.dataset, stored.entry_hash)
            emit_charge(request.dataset, request.run_id, request.slot, budget)

        if runtime.flow_run.id is not None:
            # Deferred: neither the server nor another read of the ledger holds up the run, or fails it.
            page.defer(report)
        return stored
