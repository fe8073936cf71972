"""The paid steps of DP-KPS (Nagesh et al. 2025): numbers of terms, then densities of their phrases.

Only count.py reads private records.
"""

from dataclasses import dataclass

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.rows import TermsRef
from tasks.accounting.integer_noise import SumNoise
from tasks.private.phrases.count import release_density, release_vocabulary
from tasks.private.phrases.features import DensityMember, SequenceChoice, Shape, members_of
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.sums import SumJob, sum_job
from tasks.steps.step import paid_step
from tasks.steps.tools import Tools
from tasks.steps.values import ChargedDataset
from tasks.writing.vocabulary import Vocabulary, read_vocabulary, vocabulary_of


@dataclass(frozen=True, slots=True)
class VocabularySpec:
    """The release of a vocabulary.

    `where`: the public vocabulary. `kept`: maximum number of terms (N in the paper); `threshold`: minimum count in
    standard deviations of the noise; the `at_least` best terms need not reach it.
    """

    payer: ChargedDataset
    noise: SumNoise[PartPrivacy]
    where: TermsRef
    kept: int
    threshold: float
    at_least: int = 0


@dataclass(frozen=True, slots=True)
class DensitySpec:
    """The densities of one run of DP-KPS and the sequences drawn from them.

    `count`: sequences per class. `seed` controls frequencies and draws, never noise.
    """

    payer: ChargedDataset
    noise: SumNoise[PartPrivacy]
    shape: Shape
    choice: SequenceChoice
    labels: tuple[str, ...]
    count: int
    seed: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The private vocabulary: `table` (term, number, count), and the terms' vectors."""

    table: ArtifactRef
    vectors: ArtifactRef


def public_vocabulary(tools: Tools, where: TermsRef) -> Vocabulary:
    """Read a public vocabulary; raise InputError if it is unusable."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    terms = tools.read_terms(where)
    # The most frequent terms of a language say nothing about a text; they are stop words of the matcher instead.
    return vocabulary_of(
        terms[where.skip :], [*terms[: where.skip], *sorted(ENGLISH_STOP_WORDS)], where.shortest
    )


@paid_step("count terms", versions={"vocabulary": 1})
def count_terms(tools: Tools, spec: VocabularySpec) -> tuple[ArtifactRef, str]:
    """Release the document counts of public terms to vocabulary/release.parquet."""
    vocabulary = public_vocabulary(tools, spec.where)
    job = _job(tools, spec, {"vocabulary": vocabulary.content}, {})
    return release_vocabulary(tools, job, vocabulary)


@paid_step("estimate densities", versions={"density": 1})
def estimate_densities(tools: Tools, spec: DensitySpec, terms: Terms) -> tuple[ArtifactRef, str]:
    """Release the term densities of each class to density/release.parquet."""
    chosen = read_vocabulary(tools.artifacts.read_table(terms.table))
    public = {"shape": spec.shape.parameters, "labels": list(spec.labels), "seed": spec.seed}
    public["embedder"] = tools.term_embedder.identity
    job = _job(tools, spec, {"terms": chosen.content}, public)
    return release_density(tools, job, chosen, members(tools, spec, terms), spec.labels)


def members(tools: Tools, spec: DensitySpec, terms: Terms) -> list[DensityMember]:
    """Return the random features of each member of a density, with the vectors of the terms."""
    return members_of(
        spec.shape, tools.artifacts.read_matrix(terms.vectors).astype(np.float64), spec.seed
    )


def _job(
    tools: Tools,
    spec: VocabularySpec | DensitySpec,
    inputs: dict[str, str],
    public: dict[str, object],
) -> SumJob[PartPrivacy]:
    privacy = spec.noise.privacy
    sizes: dict[str, object] = {
        "setting": privacy.setting,
        "terms": privacy.terms,
        "keyphrases": privacy.keyphrases,
    }
    return sum_job(tools, spec.payer, spec.noise, sizes | public, inputs)
