"""OnlyPrivate: a student trained on private records without noise, an upper bound (Zou et al. 2025)."""

from flows.method import Method
from flows.methods.only_private.config import OnlyPrivateConfig
from flows.methods.only_private.releases import exposure

METHOD = Method(
    name="only_private",
    config=OnlyPrivateConfig,
    summary="trains a student on the private rows without noise: NOT PRIVATE, never share it, an upper bound",
    releases=exposure,
    needs_classes=True,
)
