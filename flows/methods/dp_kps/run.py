"""A DP-KPS run: the jobs of its steps."""

from dataclasses import replace

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.content_keys import digest
from flows.engine.run import Run
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.vocabulary import vocabulary_spec
from tasks.guidance.phrases import phrases_as_texts
from tasks.prefect.runtime import run_step
from tasks.private.phrases.release import PhrasesRelease
from tasks.private.phrases.step import DensitySpec, Terms, VocabularySpec
from tasks.steps.allocation import per_class
from tasks.steps.values import Reference, TextTable
from tasks.writing.generate import Seeds, WriteJob
from tasks.writing.keyphrase_prompts import SHOWN_PER_CLASS
from tasks.writing.texts import embed_samples

FEWEST_TERMS = 100
"""Terms that a run without a stated threshold keeps, also below it: with the six best of 120 records, which were all
that reached it, a classifier of phrases reached 0.20 instead of 0.28."""


class DpKpsRun(Run):
    """A DP-KPS run and the jobs of its steps."""

    config: DpKpsConfig
    guides_all = True

    @property
    def vocabulary_spec(self) -> VocabularySpec:
        """Specification of the vocabulary release."""
        method = self.config.method
        spec = vocabulary_spec(self, method.vocabulary_terms, self.config.threshold)
        # A run that states no threshold must neither fail for one after its charge nor repeat a handful of terms.
        if method.threshold is None and spec.threshold:
            return replace(spec, at_least=max(FEWEST_TERMS, method.length))
        return spec

    @property
    def density_spec(self) -> DensitySpec:
        """Specification of the density release and of the sampling of sequences."""
        method = self.config.method
        labels = self.prepared.card.label_names
        phrases = self.prepared.guarantee.of(PhrasesRelease)
        assert phrases is not None
        # As many sequences for each class as the largest share has.
        count = max(per_class(method.samples, labels).values())
        seed = self.config.execution.seed
        return DensitySpec(
            self.payer, phrases.noise, self.config.shape, method.choice, labels, count, seed
        )

    @property
    def examples_per_prompt(self) -> int:
        """Number of examples from `few_shot` in a prompt; 0 without `few_shot`."""
        if self.config.few_shot is None:
            return 0
        return SHOWN_PER_CLASS * len(self.prepared.card.labels)

    def seeded_jobs(self, sequences: ArtifactRef, terms: Terms) -> list[WriteJob]:
        """Return one job per PLM; each prompt contains a different sequence."""
        shown = self.prepared.few_shot
        # Only examples need the vocabulary: their phrases come from it.
        vocabulary = terms.table if shown else None
        seeds = Seeds(
            sequences=sequences,
            shown=shown,
            terms=vocabulary,
            length=self.config.method.length,
            models=len(self.plms),
        )
        jobs = self.write_jobs(0, self.equal_weights(), None, ())
        return [replace(job, seeds=replace(seeds, first=job.plm_index)) for job in jobs]

    def phrases_only(self, sequences: ArtifactRef, terms: Terms) -> list[TextTable]:
        """Return the sequences as texts; convert test and public rows to phrases as well."""
        # A student that learned from phrases is tested on phrases.
        test = self._phrased(self.prepared.test, terms)
        public = self._phrased(self.prepared.public, terms)
        self.prepared = replace(self.prepared, test=test, public=public)
        labels = self.prepared.card.label_names
        count = self.config.method.samples
        written = run_step(phrases_as_texts, self.tools, sequences, labels, count)
        return [run_step(embed_samples, self.tools, written)]

    def _phrased(self, rows: Reference | None, terms: Terms) -> Reference | None:
        """Return a reference to the phrases in real rows."""
        if rows is None:
            return None
        length = self.config.method.length
        return replace(
            rows,
            content=digest([rows.content, terms.table.sha256, length]),
            terms=terms.table,
            phrases=length,
        )

    @property
    def why_missing(self) -> str:
        """Reason for missing texts: sequences that were drawn twice count once."""
        if self.config.method.texts == "phrases":
            return "some sequences were drawn twice and count once"
        return super().why_missing
