"""WASP: votes of private records select texts for a contrastive prompt (Zou et al. 2025)."""

from __future__ import annotations

from flows.engine.method import OWN_DATA, PARTIES, Method, Preset
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.releases import wasp_releases, wasp_sections

METHOD = Method(
    name="wasp",
    flow_path="flows.methods.wasp.flow.wasp",
    config=WaspConfig,
    summary="several language models write, private rows vote under DP, best and worst texts become the next prompt",
    presets=(
        Preset("demo", "demo.yaml", "Support-desk texts of three recorded models: no API key, about a minute."),
        Preset("votes", "votes.yaml", "The demo with the paper's votes (Algorithm 1): no API key, about a minute."),
        Preset("paper", "imdb_recorded.yaml", "IMDb as published (Table 1), offline: six recorded models, MiniLM."),
        Preset("paper-hub", "papers/wasp_imdb.yaml", "The same with the paper's embedder and student from the hub."),
        Preset("own-data", "own_data.yaml", OWN_DATA, ("private.path",)),
        Preset("federated", "federated_here.yaml", PARTIES, ("parties.registry", "parties.exchange")),
    ),
    releases=wasp_releases,
    sections=wasp_sections,
)
