"""OnlyPrivate: trains a student on private records without noise. NOT PRIVATE, never share it: an upper bound.

Zou et al. 2025 (WASP), Tables 1, 2 and 10. Their student saw each row once, as with `as_published`; `to_convergence`
shows the accuracy that the rows allow.
"""

from connectors.interfaces.json_values import Json
from connectors.ledger.state import RELEASING, Entry
from flows.engine.lifecycle import method_flow
from flows.engine.run import Run, RunResults
from flows.engine.spending import exposure_of
from flows.methods.only_private.config import OnlyPrivateConfig
from tasks.private.exposure.step import student_folder, train_on_private
from tasks.steps.values import PLAIN_TRAINING
from tasks.students.spec import StudentSpec

PATIENCE = 10
"""Passes without improvement on held-out rows after which training stops."""
PUBLISHED_BATCH = 16
PUBLISHED_RATE = 2e-5


class OnlyPrivateRun(Run):
    """An OnlyPrivate run: its student, and its exposure in ledger and report."""

    config: OnlyPrivateConfig

    @property
    def student_spec(self) -> StudentSpec:
        """Early stopping with a tenth of the rows held out, or one pass over all rows (published)."""
        student = self.config.student
        method = self.config.method
        seed = self.config.execution.seed
        recipe: Json = {"epochs": method.passes, "patience": PATIENCE}
        if method.training == "as_published":
            recipe = {
                "epochs": 1,
                "learning_rate": PUBLISHED_RATE,
                "batch": PUBLISHED_BATCH,
                "validation_share": 0.0,
                "head": "random",
            }
        # Settings of the configuration have precedence over both.
        return StudentSpec(student.kind, student.model, seed=seed, **(recipe | student.recipe))

    def spent(self) -> list[Entry]:
        """Return the ledger entries of this run's exposure, or of an earlier run that it reuses."""
        name = self.tools.run_name
        exposed = exposure_of(self.tools.artifacts, name.run_id)
        own = (name.run_id, PLAIN_TRAINING)
        history = self.tools.ledger.history(name.dataset)
        entries = [entry for entry in history if entry.kind in RELEASING]
        return [
            entry for entry in entries if entry.hash in exposed or (entry.run_id, entry.slot) == own
        ]


@method_flow(OnlyPrivateConfig, OnlyPrivateRun)
def only_private(run: OnlyPrivateRun) -> RunResults:
    """Train and test a student on private records without noise. NOT PRIVATE: never share its results."""
    # the ledger marks the dataset as exposed, then the rows are opened in the private zone, where the student stays
    prepared = run.prepared
    (exposure,) = run.prepared.plan.charges
    student = run.student_spec, prepared.card.label_names, prepared.test
    scores = run.read_private(train_on_private, run.payer, exposure, *student)
    return RunResults(scores, folder=student_folder(run.tools.run_id))
