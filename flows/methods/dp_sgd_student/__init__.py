"""DP-SGD of the student itself, with ghost clipping or gradient hooks (Song et al. 2024)."""

from flows.engine.method import Method
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.releases.training import training_releases

METHOD = Method(
    name="dp_sgd_student",
    config=DpSgdStudentConfig,
    summary="trains the student itself on the private rows by DP-SGD, with or without ghost clipping; writes no texts",
    releases=training_releases,
    needs_classes=True,
)
