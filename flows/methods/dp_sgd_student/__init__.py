"""DP-SGD of the student itself, with ghost clipping or gradient hooks (Song et al. 2024)."""

from flows.method import Method
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.methods.tuning import training_releases
from tasks.accounting.guarantee import Guarantee
from tasks.private.release import Release


def student_releases(config: DpSgdStudentConfig) -> Guarantee[Release]:
    """Return the release of the student's training."""
    return training_releases(config, config.method.training, config.student.kind)


METHOD = Method(
    name="dp_sgd_student",
    config=DpSgdStudentConfig,
    summary="trains the student itself on the private rows by DP-SGD, with or without ghost clipping; writes no texts",
    releases=student_releases,
    needs_classes=True,
)
