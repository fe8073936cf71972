"""OnlyPrivate: a student trained on the private records themselves, an upper bound (Zou et al. 2025, Table 1)."""

from __future__ import annotations

from flows.engine.method import Method, Preset
from flows.methods.only_private.config import OnlyPrivateConfig
from flows.methods.only_private.releases import exposure

METHOD = Method(
    name="only_private",
    flow_path="flows.methods.only_private.flow.only_private",
    config=OnlyPrivateConfig,
    summary="trains a student on the private rows themselves: NOT PRIVATE, never to be shared, an upper bound",
    presets=(Preset("demo", "only_private_here.yaml", "A student on the demo's private rows: NOT PRIVATE; a minute."),),
    releases=exposure,
    asks_models=False,
)
