"""FuseGen: students trained on synthetic texts select the next examples (Zou et al. 2024)."""

from flows.method import Method
from flows.methods.fusegen.config import FuseGenConfig
from tasks.accounting.guarantee import Guarantee, no_release
from tasks.private.release import Release


def nothing_released(config: FuseGenConfig) -> Guarantee[Release]:  # noqa: ARG001
    """Return the guarantee of a run without a release: FuseGen uses no private data."""
    return no_release()


METHOD = Method(
    name="fusegen",
    config=FuseGenConfig,
    summary="language models write without private data; students trained on their texts select the next examples",
    releases=nothing_released,
    needs_classes=True,
)
