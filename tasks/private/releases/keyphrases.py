"""The two releases of DP-KPS: document counts of public terms, and densities of documents near term sequences.

Nagesh et al. 2025. In each, the ledger charge, reading of rows, sums and noise are one transaction; only noisy integers
leave. A document's contribution depends on that document, on public terms and on public frequencies only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.ledger import ReleaseRequest, StoredRelease
from tasks.accounting.keyphrases import KeyphraseNoise, part_charge
from tasks.keyphrases.densities import DensityMember, windows
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.releases.keyphrase_release import contribution, features_at, noisy_density, noisy_vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.keyphrases import PartPrivacy
    from tasks.core.tools import Tools
    from tasks.keyphrases.phrases import Matcher, Vocabulary


@dataclass(frozen=True, slots=True)
class KeyphraseReleaseJob:
    """One of the two releases: its dataset, noise and key. The name of the part is its slot in the run."""

    dataset: str
    fingerprint: str
    step_key: str
    noise: KeyphraseNoise
    respend: bool = False


def release_vocabulary(tools: Tools, job: KeyphraseReleaseJob, vocabulary: Vocabulary) -> StoredRelease:
    """Return noisy document counts of each term, drawn now or read from the ledger.

    A document counts for its first S distinct terms. Raises BudgetError, LedgerError or PrivateInputError. Error
    details are written to the private zone, never to the message.
    """
    matcher = vocabulary.matcher

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, job.fingerprint)
            documents = [matcher.find(text) for text in rows.texts]
            return noisy_vocabulary(documents, len(vocabulary.terms), job.noise).to_bytes()

    return tools.ledger.release_once(_request(tools, job), draw)


def release_density(
    tools: Tools,
    job: KeyphraseReleaseJob,
    vocabulary: Vocabulary,
    members: Sequence[DensityMember],
    labels: Sequence[str],
) -> StoredRelease:
    """Return noisy feature sums per class and density, drawn or read from the ledger.

    `vocabulary`: the private vocabulary, released before. A document adds the average over the sequences of its first M
    distinct phrases from it. Raises the same errors as `release_vocabulary`.
    """
    matcher, codes = vocabulary.matcher, {label: code for code, label in enumerate(labels)}

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, job.fingerprint)
            features = _features(rows.texts, matcher, members, job.noise.privacy)
            classes = [codes.get(label, -1) for label in rows.labels]
            return noisy_density(features, classes, len(labels), job.noise).to_bytes()

    return tools.ledger.release_once(_request(tools, job), draw)


def _request(tools: Tools, job: KeyphraseReleaseJob) -> ReleaseRequest:
    return ReleaseRequest(
        dataset=job.dataset,
        run_id=tools.run_id,
        slot=job.noise.privacy.part,
        step_key=job.step_key,
        charge=part_charge(job.noise),
        respend=job.respend,
    )


def _features(
    texts: Sequence[str], matcher: Matcher, members: Sequence[DensityMember], privacy: PartPrivacy
) -> Iterator[NDArray[np.float64]]:
    for text in texts:
        phrases = matcher.distinct(text, privacy.keyphrases)
        yield np.concatenate([_of_member(phrases, member, privacy) for member in members])


def _of_member(phrases: Sequence[int], member: DensityMember, privacy: PartPrivacy) -> NDArray[np.float64]:
    return contribution(features_at(member.of(windows(phrases, member.places)), member.phases), privacy)
