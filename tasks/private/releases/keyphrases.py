"""The two doors of DP-KPS: how many documents hold each public term, and how close documents come to sequences of them.

Nagesh et al. 2025. Each is ledger line, private rows, sums, noise, in one transaction; only noisy integers come out.
What a document adds hangs on that document, on public terms and on public frequencies alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.ledger import Release, ReleaseRequest
from tasks.accounting.keyphrases import KeyphraseNoise, part_charge
from tasks.keyphrases.densities import Member, windows
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.releases.keyphrase_release import contribution, features_at, noisy_density, noisy_vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.keyphrases import PartPrivacy
    from tasks.core.tools import Tools
    from tasks.keyphrases.phrases import Matcher, Vocabulary


@dataclass(frozen=True, slots=True)
class PartJob:
    """One of the two releases: which dataset, which noise, which key. The part's name is its place in the run."""

    dataset: str
    fingerprint: str
    step_key: str
    noise: KeyphraseNoise
    respend: bool = False


def release_vocabulary(tools: Tools, job: PartJob, vocabulary: Vocabulary) -> Release:
    """Return in how many documents each term stands, with noise, drawn now or read back from the ledger.

    A document counts for its first S different terms. Raises BudgetError, LedgerError or PrivateInputError; whatever
    goes wrong inside is told in the private zone, never in the message.
    """
    matcher = vocabulary.matcher

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, job.fingerprint)
            found = [matcher.find(text) for text in rows.texts]
            return noisy_vocabulary(found, len(vocabulary.terms), job.noise).to_bytes()

    return tools.ledger.release_once(_request(tools, job), draw)


def release_density(
    tools: Tools, job: PartJob, vocabulary: Vocabulary, members: Sequence[Member], labels: Sequence[str]
) -> Release:
    """Return the sums of features of every class and density, with noise, drawn now or read back from the ledger.

    `vocabulary`: the private one, which was released before; a document adds the average over the sequences of its
    first M different phrases of it. Errors as `release_vocabulary`.
    """
    matcher, number = vocabulary.matcher, {label: place for place, label in enumerate(labels)}

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, job.fingerprint)
            features = _features(rows.texts, matcher, members, job.noise.privacy)
            classes = [number.get(label, -1) for label in rows.labels]
            return noisy_density(features, classes, len(labels), job.noise).to_bytes()

    return tools.ledger.release_once(_request(tools, job), draw)


def _request(tools: Tools, job: PartJob) -> ReleaseRequest:
    return ReleaseRequest(
        dataset=job.dataset,
        run_id=tools.run_id,
        slot=job.noise.privacy.part,
        step_key=job.step_key,
        charge=part_charge(job.noise),
        respend=job.respend,
    )


def _features(
    texts: Sequence[str], matcher: Matcher, members: Sequence[Member], privacy: PartPrivacy
) -> Iterator[NDArray[np.float64]]:
    for text in texts:
        phrases = matcher.distinct(text, privacy.keyphrases)
        yield np.concatenate([_of_member(phrases, member, privacy) for member in members])


def _of_member(phrases: Sequence[int], member: Member, privacy: PartPrivacy) -> NDArray[np.float64]:
    return contribution(features_at(member.of(windows(phrases, member.places)), member.phases), privacy)
