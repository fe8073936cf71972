"""Figures of the papers on the drawn rows of a public benchmark, without noise: NOT PRIVATE.

FID against the records after each iteration (Zou et al. 2025, Figures 1, 5 to 7), and the accuracy of the teachers with
and without the noise of their answers (Song et al. 2024, Figure 4). They are no release: nothing bounds what a row
changes. Only rows that are declared public are measured, and the name of each figure says what it is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ConfigError
from tasks.metrics.metrics import fid
from tasks.metrics.registry import FID_OF_RECORDS, NOISY_TEACHERS, TEACHERS
from tasks.private.held_out import held_out, is_test_row
from tasks.private.rows.quarantine import sealed
from tasks.private.rows.rows import open_rows
from tasks.private.sums import add_noise
from tasks.private.teachers.answers import TeacherJob, clean_answers, shard_answers
from tasks.private.teachers.step import TeacherSpec, answers_job, shown_to
from tasks.private.votes.step import usable_rows
from tasks.steps.reuse import json_once, step_key
from tasks.steps.step import as_json, paid_step
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.students.training_set import public_texts
from tasks.writing.texts import content, read_vectors


@paid_step("FID against the records t={iteration}", versions={"fid_records": 0}, value=as_json)
def fid_of_records(
    tools: Tools, fingerprint: str, iteration: int, written: Sequence[TextTable]
) -> tuple[ArtifactRef, str]:
    """Write the FID of all texts against the drawn records, NOT PRIVATE; None for fewer than two usable records."""
    _require_public(tools)
    path = f"runs/{tools.run_id}/iteration={iteration}/not_private.json"
    parameters: dict[str, object] = {
        "private": fingerprint,
        "rows": tools.private.where.choice,
        "embedder": tools.embedder.identity,
    }
    key = step_key(
        "fid_records", parameters, {"samples": content([entry.samples for entry in written])}
    )

    def measure() -> dict[str, object]:
        with sealed(tools.zone.folder):
            _, records = usable_rows(tools, open_rows(tools.zone, tools.private, fingerprint))
            value = None
            if len(records) > 1:
                value = fid(read_vectors(tools, written), records)
            return {FID_OF_RECORDS: value}

    return json_once(tools.artifacts, path, key, measure)


@paid_step("test teachers", versions={"teachers_accuracy": 0}, value=as_json)
def measure_teachers(
    tools: Tools, spec: TeacherSpec, test: Reference, written: Sequence[TextTable]
) -> tuple[ArtifactRef, str]:
    """Write the accuracies of the summed teachers, NOT PRIVATE: exact, and with the noise of their answers.

    The teachers are trained again, as their answers to `test` rows are no part of the release. Empty if there are too
    few texts.
    """
    _require_public(tools)
    path = f"runs/{tools.run_id}/teachers_not_private.json"
    parameters: dict[str, object] = {
        "answers": answers_job(tools, spec, written).key.key,
        "test": test.content,
    }
    key = step_key(
        "teachers_accuracy", parameters, {"samples": content([entry.samples for entry in written])}
    )

    def measure() -> dict[str, object]:
        rows = held_out(tools, spec, test, written)
        if rows is None:
            return {}
        answers = []
        texts = sum(entry.samples.rows for entry in written)
        for number in range(spec.teachers):
            job = TeacherJob(spec.payer.fingerprint, number, spec.teachers, spec.student)
            _, drawn = shown_to(texts, number, spec)
            negatives = public_texts(tools, written, drawn, spec.student)
            answers.append(shard_answers(tools, job, negatives, rows))
        clean = clean_answers(answers)
        return {
            TEACHERS: _accuracy(clean.sums),
            NOISY_TEACHERS: _accuracy(add_noise(clean, spec.answers).sums),
        }

    return json_once(tools.artifacts, path, key, measure)


def _accuracy(sums: NDArray[np.int64]) -> float:
    """Return the share of right answers of sums (rows, 2) of `held_out`."""
    return float(((sums[:, 1] > sums[:, 0]) == is_test_row(len(sums))).mean())


def _require_public(tools: Tools) -> None:
    if not tools.private.where.public:
        raise ConfigError(
            "evaluation.unnoised_figures: the rows are not declared public (private.rows_are_public). Remove it"
        )
