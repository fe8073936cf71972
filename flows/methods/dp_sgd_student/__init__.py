"""DP-SGD of the student itself, with ghost clipping or gradient hooks (Song et al. 2024)."""

from flows.engine.method import Method, Releases
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.releases.training import training_releases


def student_releases(config: DpSgdStudentConfig) -> Releases:
    """Return the release of the student's training."""
    return training_releases(config, config.method.training, config.student.kind)


METHOD = Method(
    name="dp_sgd_student",
    config=DpSgdStudentConfig,
    summary="trains the student itself on the private rows by DP-SGD, with or without ghost clipping; writes no texts",
    releases=student_releases,
    needs_classes=True,
)
