"""Prefect tasks that read private records.

All but `train_on_private` and `test_teachers` spend privacy budget; these two are not private and have their look
recorded in the ledger first. The ledger decides whether noise is drawn or a stored release is returned, and charges
each release once, so no step is retried by Prefect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect.states import Completed

from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import as_json, in_flow_process, step, step_of
from tasks.steps import density, dp_sgd, keyphrases, label_counts, teachers
from tasks.steps import vote as voting
from tasks.steps.students import dp_classifier, plain_student
from tasks.steps.teachers import TeacherSpec

vote = step_of(voting.vote, "vote t={spec.iteration}", retries=0)
estimate_density = step_of(density.estimate_density, "estimate the private density", retries=0)
train_on_private = step_of(plain_student.train_on_rows, "train on private rows", as_json, retries=0)
tune = step_of(dp_sgd.tune, "train {spec.plm} under DP", part="model", retries=0)
classify = step_of(dp_classifier.classify, "train classifier under DP", part="model", retries=0)
count_terms = step_of(keyphrases.count_terms, "count terms", retries=0)
estimate_densities = step_of(keyphrases.estimate_densities, "estimate densities", retries=0)
count_labels = step_of(label_counts.count_labels, "count labels", retries=0)


@step("teacher {number}", stays=in_flow_process, retries=0)
def teach(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> Any:
    """Train one teacher on its shard of the private records.

    The teacher and its predictions stay in the private zone.
    """
    teacher, why = teachers.teach(tools, spec, number, written)
    return Completed(name="Reused" if teacher is None or teacher.reused else "Completed", message=why)


check_teachers = step_of(teachers.check, "check teachers", stays=in_flow_process, retries=0)
ask_teachers = step_of(teachers.answer, "ask teachers", stays=in_flow_process, retries=0)
test_teachers = step_of(teachers.test_teachers, "test teachers", stays=in_flow_process, retries=0)
