"""Sequences of phrases sampled from noisy densities.

Sampling is post-processing, which costs no privacy. A phrase is sampled with a probability proportional to max(0,
estimate)^sharpness, among all phrases or among the best, with or without phrases that are already in the sequence. If
no estimate is above 0, all of them are equally likely. Nagesh et al. 2025, section 2 (i): in proportion to the
estimates, among all phrases; 2 (ii): L such samples with repeats, or a "high scoring" phrase after each prefix.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from tasks.private.phrases.features import DensityMember, SequenceChoice, Shape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

ROWS_AT_ONCE: Final = 2048
"""Sequences that are extended together; limits the memory and does not change any sample."""


def estimates(member: DensityMember, sums: Floats, prefixes: Ints, position: int) -> Singles:
    """Return the estimated kernel sum of every term after each prefix, (n, terms).

    `sums` (n, 2 D): the noisy sums of features of each prefix' class. `prefixes` (n, phrases so far). By
    cos(a + b) = cos a cos b - sin a sin b, all terms are one matrix product, whose size does not depend on the
    dimension of the vectors.
    """
    return _product(_before(member, sums, prefixes), _after(member, position))


def draw_sequences(
    shape: Shape,
    members: Sequence[DensityMember],
    sums: Floats,
    count: int,
    choice: SequenceChoice,
    rng: np.random.Generator,
) -> Ints:
    """Return `count` sequences of `shape.length` terms for each class.

    Term numbers, shape (classes * count, L). `sums` (classes, members * 2 D): the released sums of a class in features,
    one density after the other. Raises ConfigError when there are fewer terms than different phrases of a sequence.
    """
    terms = members[0].angles.shape[1]
    if terms < shape.length and not choice.repeats:
        raise ConfigError(
            f"method.length: a sequence has {shape.length} different phrases, the private vocabulary {terms}. Lower it."
        )
    parts = np.split(sums, len(members), axis=1)
    sequences = np.zeros((len(sums) * count, 0), dtype=np.int64)
    of_class = np.repeat(np.arange(len(sums)), count)
    for position in range(shape.length):
        # Independent phrases have one density of single phrases, and no prefix.
        depth = 0
        index = 0
        if shape.sampling == "iterative":
            depth = position
            index = shape.member_for(position + 1)
        after = _after(members[index], depth)
        excluded = position
        if choice.repeats:
            excluded = 0
        chosen = []
        for rows in np.array_split(
            np.arange(len(sequences)), max(1, -(-len(sequences) // ROWS_AT_ONCE))
        ):
            before = _before(members[index], parts[index][of_class[rows]], sequences[rows, :depth])
            taken = sequences[rows, :excluded]
            chosen.append(draw(_exclude(_product(before, after), taken), choice, rng))
        sequences = np.concatenate([sequences, np.concatenate(chosen)[:, None]], axis=1)
    return sequences


def draw(scores: Singles, choice: SequenceChoice, rng: np.random.Generator) -> Ints:
    """Sample a term for each row of scores (n, terms); -inf excludes a term."""
    allowed = np.isfinite(scores)
    if 0 < choice.top < scores.shape[1]:
        least = np.partition(scores, -choice.top, axis=1)[:, -choice.top, None]
        allowed &= scores >= least
    # Divided by the best before the power, which would overflow or underflow float32.
    best = np.maximum(scores.max(axis=1, keepdims=True), np.float32(1e-30))
    chances = np.where(allowed, np.maximum(scores, 0.0) / best, 0.0) ** np.float32(choice.sharpness)
    none = ~chances.any(axis=1)
    chances[none] = allowed[none]
    # By inversion, in float64: a running sum of many small float32 chances stops growing.
    reached = np.cumsum(chances, axis=1, dtype=np.float64)
    drawn = (reached <= rng.random((len(scores), 1)) * reached[:, -1:]).sum(axis=1)
    # Rounding may leave the last sum below the drawn number.
    return np.asarray(np.minimum(drawn, scores.shape[1] - 1), dtype=np.int64)


def _before(member: DensityMember, sums: Floats, prefixes: Ints) -> Singles:
    """Return factors of cos and sin of the next phrase's angles, (n, 2 F)."""
    angles = member.of(prefixes)
    if member.phases is not None:
        angles += member.phases
        of_cos = np.sqrt(2.0) * sums * np.cos(angles)
        of_sin = -np.sqrt(2.0) * sums * np.sin(angles)
    else:
        cos_sums, sin_sums = np.split(sums, 2, axis=1)
        cos = np.cos(angles)
        sin = np.sin(angles)
        of_cos = cos_sums * cos + sin_sums * sin
        of_sin = sin_sums * cos - cos_sums * sin
    return np.asarray(np.concatenate([of_cos, of_sin], axis=1) / angles.shape[1], dtype=np.float32)


def _after(member: DensityMember, position: int) -> Singles:
    """Return cos and sin of every term's angles at a position, (2 F, terms)."""
    angles = member.angles[position]
    return np.asarray(np.concatenate([np.cos(angles), np.sin(angles)], axis=1).T, dtype=np.float32)


def _product(before: Singles, after: Singles) -> Singles:
    return np.asarray(before @ after, dtype=np.float32)


def _exclude(scores: Singles, taken: Ints) -> Singles:
    """Exclude terms (n, any number) from the scores."""
    if taken.shape[1]:
        np.put_along_axis(scores, taken, np.float32(-np.inf), axis=1)
    return scores
