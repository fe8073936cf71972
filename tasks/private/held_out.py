"""Public texts that measure a discriminator: test rows, and generated texts that took no part in its training."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.usefulness import MIN_HELD_OUT
from tasks.private.teachers.step import TeacherSpec, shown_to_any
from tasks.private.training.classifier_step import shown_to_classifier
from tasks.private.training.recipe import ClassifySpec
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.students.spec import PublicTexts
from tasks.students.training_set import public_texts
from tasks.writing.prompts import seed_of
from tasks.writing.texts import reference_rows


def is_test_row(count: int) -> NDArray[np.bool_]:
    """Return which of `count` rows of `held_out` are test rows: the first half."""
    return np.arange(count) < count // 2


def held_out(
    tools: Tools, spec: TeacherSpec | ClassifySpec, test: Reference, written: Sequence[TextTable]
) -> PublicTexts | None:
    """Return test rows, then as many generated texts that are no query and in no training set; None if too few.

    The seed draws rows and texts. Song et al. 2024 measure on "our constructed test set" (Figures 3, 4) of unknown
    size; here both halves are equal.
    """
    samples = sum(entry.samples.rows for entry in written)
    if isinstance(spec, TeacherSpec):
        shown = shown_to_any(samples, spec)
        used = sorted(shown)
    else:
        used = shown_to_classifier(samples, spec)
    left = np.setdiff1d(np.arange(samples), used)
    frame, real = reference_rows(tools, test)
    count = min(len(left), len(frame))
    if count < MIN_HELD_OUT:
        return None
    random = np.random.default_rng(seed_of("held out", spec.student.seed))
    rows, unseen = (
        np.sort(random.permutation(part)[:count]) for part in (np.arange(len(frame)), left)
    )
    texts = public_texts(tools, written, unseen, spec.student)
    vectors = None
    if texts.vectors is not None:
        vectors = np.concatenate([np.asarray(real)[rows], texts.vectors])
    return PublicTexts([*frame["text"].to_numpy()[rows].tolist(), *texts.texts], vectors)
