"""Base class of runs: builds the jobs of the steps that all methods share.

A flow calls steps with jobs from its run, so the flow file contains only the algorithm.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from prefect import get_run_logger

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.earlier_names import warn_earlier
from connectors.interfaces.errors import ModelsDownError, TooFewTextsError, in_step
from connectors.ledger.state import LOOK, Entry
from flows.config.method import texts_per_prompt
from flows.engine.corpus_text import describe_nearness
from flows.engine.label_advice import has_unnamed
from flows.engine.prepare import Prepared
from flows.engine.preview import is_up
from flows.engine.run_progress import RunProgress
from flows.engine.tools import RunTools
from flows.runtime.manifest import RunManifest
from flows.runtime.state_folder import current_user
from flows.runtime.terminal_progress import display
from tasks.evaluation.baseline import BaselineJob
from tasks.evaluation.steps import MeasureJob, TrainJob, train_and_test
from tasks.guidance.public_corpus import label_corpus
from tasks.guidance.soft_labels import label_softly
from tasks.metrics.usefulness import DiscriminatorTest
from tasks.prefect.runtime import run_step
from tasks.private.parties.coordinator import Dropped, federated_vote
from tasks.private.votes.promise import VoteNoise
from tasks.private.votes.release import VotesRelease
from tasks.private.votes.step import VoteSpec, vote
from tasks.steps.allocation import MIN_SHARE, allocate
from tasks.steps.values import ChargedDataset, TextTable, Weights
from tasks.students.spec import NEXT_WORD, StudentSpec
from tasks.students.training_set import collect
from tasks.writing.class_balance import Shares
from tasks.writing.generate import WriteJob, tasks_of
from tasks.writing.texts import samples_path, texts_of_job
from tasks.writing.usable_texts import require_usable

NO_TEXTS = "this run wrote no texts"
NO_RELEASE = "this run has no private release, so its own texts are the baseline"
NO_ZERO_SHOT = "every text of this run depends on a release"
"""Why a run has no baseline without private data."""


@dataclass(frozen=True, slots=True)
class RunResults:
    """The student of a run and the texts of its result; a run that writes no texts has none.

    `folder`: place of a student that is not in the run's own folder, relative to the state folder.
    """

    student: dict[str, Any]
    written: tuple[TextTable, ...] = ()
    synthetic: ArtifactRef | None = None
    folder: str = ""


EARLIER: Final = {
    "facts_so_far": "iterations",
    "generated": "generated",
    "loss": "loss",
    "manifest": "manifest",
    "money": "money",
    "started": "started",
}
"""Attributes of a run in earlier versions, which methods of other packages may read, with their names in `progress`."""


class Run:
    """Builds the jobs of a run of a flow from its configuration and its results so far; methods subclass it.

    `progress`: what the run released, wrote and measured so far. `shares`: the part of each class in all texts, set by
    released label counts. `trained`: the training job of the student, once it ran on texts. `guides_all`: every text
    depends on a release, also in the first iteration.
    """

    shares: Shares = ()
    shares_are_noisy = False
    trained: TrainJob | None = None
    guides_all = False
    density: ArtifactRef | None = None
    """The released density, once it exists, which moves vectors."""
    soft: ArtifactRef | None = None
    """Soft labels of the final texts, once they exist."""
    topics: ArtifactRef | None = None
    """Terms of each class, chosen by the release, where no name of a class says anything."""
    corpus: tuple[TextTable, ...] = ()
    """Texts of the public corpus, once the release has labelled them; empty without a corpus."""
    measured: tuple[TextTable, ...] = ()
    """The texts that were measured last."""
    discriminator: DiscriminatorTest | None = None
    """Accuracy of the discriminator that selects texts, once it is measured."""
    notes: tuple[str, ...] = ()
    """Warnings of the method about its result, for the report."""

    def __init__(self, prepared: Prepared, manifest: RunManifest, started: float) -> None:
        self.prepared = prepared
        self.progress = RunProgress(prepared, manifest, started)
        self.config = prepared.tools.config
        self.tools: RunTools = prepared.tools
        self.iterations = self.config.method.iterations
        self.dropped: Dropped = {}

    @property
    def plms(self) -> tuple[str, ...]:
        """Names of the PLMs, K of them."""
        return self.config.writers

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all models: the PLMs, then those that only vary texts."""
        return tuple(model.name for model in self.config.models)

    @property
    def dataset(self) -> str:
        """Name of the dataset in this run; the ledger may know the same rows by an earlier name. Empty without one."""
        charged = self.tools.run_name.dataset
        if charged and self.config.private is not None:
            return self.tools.private.name
        return charged

    @property
    def examples_per_prompt(self) -> int:
        """Number of examples in a prompt, once there are examples (S); 0 without a field `method.examples`."""
        return int(getattr(self.config.method, "examples", 0))

    @property
    def releases(self) -> list[ArtifactRef]:
        """The releases drawn so far, in order; a method adds those that `release` did not draw."""
        return self.progress.releases

    @property
    def why_missing(self) -> str:
        """Reason why the result may have fewer texts than configured."""
        return "the models gave no more valid ones"

    def read_private(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run a step that reads private records; the display names it without a count, which would depend on them."""
        with display().waiting("reading the private records (no count is shown)"):
            return run_step(step, self.tools, *arguments)

    def release(self, step: Callable[..., Any], *arguments: Any) -> ArtifactRef:
        """Run a step that draws a release; the loss of the run includes it from now on."""
        release = cast(ArtifactRef, self.read_private(step, *arguments))
        self.releases.append(release)
        return release

    def equal_weights(self) -> Weights:
        """Return the weights before any vote: w_k = 1/K."""
        return {plm: 1 / len(self.plms) for plm in self.plms}

    @property
    def base_job(self) -> WriteJob:
        """The common part of the jobs of all new texts, without model and iteration."""
        seed = self.config.execution.seed
        examples = self.examples_per_prompt
        return WriteJob(
            self.prepared.card,
            "",
            plm_index=0,
            iteration=0,
            seed=seed,
            examples_per_prompt=examples,
            texts_per_prompt=texts_per_prompt(self.config.method),
        )

    def write_jobs(
        self,
        iteration: int,
        weights: Weights,
        examples: ArtifactRef | None,
        written: Sequence[TextTable],
    ) -> list[WriteJob]:
        """Return the jobs of all PLMs; together they write the round's texts and those missing from earlier rounds.

        A PLM has one job, or several for more texts than one task writes. Prompts with topics show no examples: those
        of a class are texts that were written without knowing it.
        """
        if self.topics is not None:
            examples = None
        jobs = []
        offset = sum(table.samples.rows for table in written)
        for plm, count in self.counts(iteration, weights, written).items():
            number = self.plms.index(plm)
            job = replace(
                self.base_job,
                plm=plm,
                plm_index=number,
                iteration=iteration,
                count=count,
                offset=offset,
                examples=examples,
                topics=self.topics,
                earlier=tuple(table.samples for table in written),
                shares=self.shares,
                listed=self.config.plms[number].is_listed,
            )
            jobs.append(job)
            # Positions continue over models and rounds: each text of a run has its number.
            offset += count
        return self.divided(jobs)

    def divided(self, jobs: Sequence[WriteJob]) -> list[WriteJob]:
        """Return the tasks of jobs; a job of few texts is one task."""
        divided = []
        for job in jobs:
            tasks = tasks_of(job, texts_of_job(self.tools, job))
            # A table that an earlier version wrote in one task is reused: its texts may have been voted on.
            if len(tasks) > 1 and self.tools.artifacts.exists(samples_path(self.tools.run_id, job)):
                tasks = [job]
            divided += tasks
        return divided

    def counts(
        self, iteration: int, weights: Weights, written: Sequence[TextTable]
    ) -> dict[str, int]:
        """Return the number of texts for each PLM; a PLM that is down gets none until it responds again.

        Once the vote is released, the stored counts are reused: texts cannot join a vote afterwards.
        """
        folder = f"runs/{self.tools.run_id}/iteration={iteration}"
        artifacts = self.tools.artifacts
        if artifacts.exists(f"{folder}/release.parquet"):
            text = artifacts.read_text(f"{folder}/plan.json")
            if text:
                stored: dict[str, int] = json.loads(text)
                return stored
        latest = {table.plm: table.down for table in written}
        available = {
            plm: weight
            for plm, weight in weights.items()
            if not latest.get(plm) or is_up(self.tools, self.prepared.card, plm, iteration)
        }
        existing = sum(table.samples.rows for table in written)
        # If every model is down, all get their share: the step reports the failure of each.
        counts = allocate(
            self.texts_after(iteration) - existing, available or weights, self.least_share
        )
        artifacts.write_text(f"{folder}/plan.json", json.dumps(counts))
        return counts

    @property
    def least_share(self) -> float:
        """Smallest part of an equal share that a model writes."""
        return MIN_SHARE

    def texts_after(self, iteration: int) -> int:
        """Return the planned number of texts after an iteration; each round writes 1/T of all."""
        return self.config.method.samples * (iteration + 1) // self.iterations

    def require_texts(self, iteration: int, written: Sequence[TextTable]) -> None:
        """Raise ModelsDownError when every PLM is down, TooFewTextsError when the next step has too few usable texts.

        Before a charge, a single PLM that is down stops the run as well, unless `execution.on_model_down` is continue.
        The release checks again (`tasks.private.draw_once.write_release`); this check fails earlier.
        """
        new = [table for table in written if table.iteration == iteration]
        down = [table for table in new if table.down]
        released = self.tools.artifacts.exists(
            f"runs/{self.tools.run_id}/iteration={iteration}/release.parquet"
        )
        stops = (
            self.config.execution.on_model_down == "stop"
            and self.is_voted_on(iteration)
            and not released
        )
        if down and (stops or len(down) == len(new)):
            error = ModelsDownError(_down_text(iteration, down, len(new)))
            in_step(error, f"generate t={iteration}")
            raise error
        try:
            if self.is_voted_on(iteration) and not released:
                require_usable(self.tools, written, self.needed)
            elif not any(table.samples.rows for table in written):
                require_usable(self.tools, written)
        except TooFewTextsError as stop:
            in_step(stop, f"generate t={iteration}")
            raise

    def is_voted_on(self, iteration: int) -> bool:  # noqa: ARG002  (methods without votes)
        """Return whether the next step after generating an iteration's texts is a release."""
        return False

    @property
    def needed(self) -> dict[str, int]:
        """Usable texts that a release needs of each class; two by default."""
        return {}

    def measure_job(self, iteration: int, written: Sequence[TextTable]) -> MeasureJob:
        """Return the job that measures all texts so far."""
        fid = self.config.evaluation.fid_reference
        seed = self.config.execution.seed
        self.measured = tuple(written)
        classes = len(self.prepared.card.labels)
        return MeasureJob(
            iteration, tuple(written), fid, self.prepared.test, self.prepared.public, seed, classes
        )

    @property
    def vote_scope(self) -> str:
        """Candidates of a vote: the texts of this round ("latest") or all so far ("all")."""
        return "latest"

    @property
    def payer(self) -> ChargedDataset:
        """The private dataset that releases are charged to."""
        name = self.tools.run_name
        return ChargedDataset(name.dataset, name.fingerprint, self.config.privacy.respends)

    @property
    def vote_noise(self) -> VoteNoise:
        """The calibrated noise of the run's votes."""
        votes = self.prepared.guarantee.of(VotesRelease)
        assert votes is not None, "a method without votes asks for one"
        return votes.noise

    def vote_spec(self, iteration: int) -> VoteSpec:
        """Return the specification of one iteration's vote."""
        return VoteSpec(iteration, self.payer, self.vote_noise, self.vote_scope, self.needed)

    def vote(self, iteration: int, votable: Sequence[TextTable]) -> ArtifactRef:
        """Return the noisy votes of the private records, of this run or of several parties, on texts."""
        spec = self.vote_spec(iteration)
        federation = self.prepared.federation
        if federation is None:
            return self.release(vote, spec, votable)
        return self.release(
            federated_vote, spec, votable, federation, self.dropped, get_run_logger().info
        )

    @property
    def student_spec(self) -> StudentSpec:
        """Specification of the student."""
        if not self.prepared.card.has_classes:
            return StudentSpec(NEXT_WORD, seed=self.config.execution.seed)
        return StudentSpec(seed=self.config.execution.seed, **self.config.student.settings)

    def record(
        self,
        iteration: int,
        written: Sequence[TextTable],
        measured: Mapping[str, Any],
        weights: Weights | None = None,
    ) -> None:
        """Record an iteration on the run's page, in the terminal and in MLflow; `weights` are those of the next one."""
        if self.config.measures_records:
            measured = {**measured, **self.unnoised_figures(iteration)}
        self.progress.record(iteration, written, measured, weights or {}, self.spent())

    def unnoised_figures(self, iteration: int) -> dict[str, Any]:
        """Return figures that need the drawn rows of a public benchmark without noise, by metric: NOT PRIVATE."""
        # Imported here: few runs measure them, and it imports the training of teachers.
        from tasks.private.benchmark import fid_of_records

        self.note_look("FID against the drawn records", f"fid-{iteration}")
        fingerprint = self.tools.run_name.fingerprint
        figures: dict[str, Any] = run_step(
            fid_of_records, self.tools, fingerprint, iteration, self.measured
        )
        return figures

    def note_look(self, what: str, slot: str) -> None:
        """Record in the ledger that records are measured without noise, once for each slot."""
        name = self.tools.run_name
        detail = canonical({"what": what, "where": "report and metrics of the run"})
        look = Entry(
            name.dataset, LOOK, current_user(), name.flow, name.run_id, slot, detail_json=detail
        )
        self.tools.ledger.note(look)

    def spent(self) -> list[Entry]:
        """Return the ledger entries that paid for the run's output so far.

        A method whose release is not in `releases` overrides it: record, summary and page state the loss of these.
        """
        return self.progress.spent()

    # Hidden from type checks, which would otherwise accept every name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return what earlier versions had as an attribute of the run and `progress` has now, and warn."""
            if name not in EARLIER:
                raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
            warn_earlier("Run", name, f"progress.{EARLIER[name]}", stacklevel=2)
            return getattr(self.progress, EARLIER[name])

    def baseline_job(self) -> BaselineJob | str:
        """Return the job that measures texts without private data, or why there is nothing to measure."""
        if self.trained is None:
            return NO_TEXTS
        if not self.releases:
            return NO_RELEASE
        texts: tuple[TextTable, ...] = ()
        if not self.guides_all:
            # Only the first iteration precedes all releases.
            texts = tuple(
                table
                for table in self.progress.generated
                if table.iteration == 0 and table.is_new and table.samples.rows
            )
        # Class means of a density classify texts; without classes there is nothing to classify.
        density = self.density if self.prepared.card.has_classes else None
        if texts:
            balanced = bool(self.shares)
            return BaselineJob(self.trained, texts, balanced, density, corpus=self.corpus)
        if density is None:
            return NO_ZERO_SHOT
        return BaselineJob(self.trained, texts, bool(self.shares), density, NO_ZERO_SHOT)

    def join_corpus(self, written: Sequence[TextTable]) -> tuple[TextTable, ...]:
        """Return the texts of the public corpus with labels of the release; show and track how near they are."""
        corpus = self.prepared.corpus
        if corpus is None:
            return ()
        assert self.density is not None, "a corpus without a density is refused before the run"
        table: TextTable = run_step(label_corpus, self.tools, corpus, self.density, written)
        line = f"public corpus: {describe_nearness(self.tools, self.prepared.card, table.samples)}"
        get_run_logger().info(line)
        display().say(line)
        rows = {
            "texts/rows_written": float(sum(entry.samples.rows for entry in written)),
            "texts/rows_public": float(table.samples.rows),
        }
        self.tools.tracker.metrics(rows, self.iterations)
        return (table,)

    def train(self, written: Sequence[TextTable]) -> RunResults:
        """Collect the texts of the result, train and test the student on them; return the results of the run."""
        prepared = self.prepared
        classes = prepared.card.label_names
        self.corpus = self.join_corpus(written)
        learned = (*written, *self.corpus)
        if self.config.labels_texts:
            fitted: tuple[TextTable, ...] = tuple(written)
            others = self.corpus
            # Texts for names that say nothing are poor teachers of public ones, so one head is fitted to both.
            # Otherwise the head of the written texts is the better one (docs/results/public_corpus.md).
            if has_unnamed(prepared.card.labels):
                fitted = learned
                others = ()
            hard = self.config.text_labels == "hard"
            self.soft = run_step(
                label_softly, self.tools, classes, self.density, hard, fitted, others
            )
        source = ""
        if self.config.public_corpus is not None:
            source = self.config.public_corpus.source
        synthetic = run_step(collect, self.tools, learned, self.soft, source)
        unlabelled = None
        if self.student_spec.adaptation == "coral":
            unlabelled = prepared.public
        self.trained = TrainJob(
            learned, self.student_spec, classes, prepared.test, unlabelled, self.soft
        )
        with display().waiting("training the student"):
            student = run_step(train_and_test, self.tools, self.trained)
        return RunResults(student, tuple(written), synthetic)


def _down_text(iteration: int, down: Sequence[TextTable], models: int) -> str:
    """Return which models do not answer, why, and how a run with others left can go on."""
    reasons = "; ".join(f"{table.plm}: {(table.down or '').rstrip('.')}" for table in down)
    if len(down) == models:
        return f"Every PLM is down in iteration {iteration}. {reasons}"
    return (
        f"{len(down)} of {models} PLMs are down in iteration {iteration}, before a release that would be charged. "
        f"{reasons}. To continue without them, run again with --set execution.on_model_down=continue"
    )
