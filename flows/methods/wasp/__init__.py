"""WASP: votes of private records select texts for a contrastive prompt (Zou et al. 2025)."""

from flows.method import Method
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.releases import wasp_releases, wasp_sections

METHOD = Method(
    name="wasp",
    config=WaspConfig,
    summary="several language models write, private rows vote under DP, best and worst texts become the next prompt",
    releases=wasp_releases,
    sections=wasp_sections,
)
