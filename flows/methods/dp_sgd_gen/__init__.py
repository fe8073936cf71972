"""DP-SGD + generation: trains a language model on private records, then writes (Yue et al. 2023)."""

from flows.method import Method
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from flows.methods.dp_sgd_gen.trainable import checked_model
from flows.methods.tuning import training_releases
from tasks.accounting.guarantee import Guarantee
from tasks.private.release import Release


def writer_releases(config: DpSgdGenConfig) -> Guarantee[Release]:
    """Return the release of the language model's training."""
    return training_releases(config, config.method, "writer")


METHOD = Method(
    name="dp_sgd_gen",
    config=DpSgdGenConfig,
    summary="one local language model is trained on the private rows by DP-SGD, then writes",
    releases=writer_releases,
    contents=checked_model,
)
