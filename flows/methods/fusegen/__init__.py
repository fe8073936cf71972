"""FuseGen: students trained on synthetic texts select the next examples (Zou et al. 2024)."""

from typing import Any

from flows.engine.method import Method, Releases
from flows.methods.fusegen.config import FuseGenConfig
from tasks.accounting.no_noise import no_release


def no_releases(config: Any) -> Releases:  # noqa: ARG001
    """Return no releases: FuseGen uses no private data."""
    return Releases(no_release())


METHOD = Method(
    name="fusegen",
    config=FuseGenConfig,
    summary="language models write without private data; students trained on their texts select the next examples",
    releases=no_releases,
    needs_classes=True,
)
