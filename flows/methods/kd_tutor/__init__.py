"""KD discriminator + tutor: teachers on private shards select texts; noisy counts set the classes."""

from flows.method import Method
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.methods.kd_tutor.releases import kd_releases

METHOD = Method(
    name="kd_tutor",
    config=KdTutorConfig,
    summary="teachers on shards of the private rows select texts that look private; noisy label counts set the class "
    "proportions",
    releases=kd_releases,
    needs_classes=True,
)
