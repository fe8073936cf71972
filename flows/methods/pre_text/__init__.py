"""PrE-Text: a population evolves through votes of private records and masked words (Hou et al. 2024)."""

from __future__ import annotations

from flows.engine.method import OWN_DATA, PARTIES, Method, Preset
from flows.methods.pre_text.config import PreTextConfig
from flows.releases.budget import vote_releases

METHOD = Method(
    name="pre_text",
    flow_path="flows.methods.pre_text.flow.pre_text",
    config=PreTextConfig,
    summary="a population evolves through votes of the private rows and masked words; language models write more texts "
    "like the survivors",
    presets=(
        Preset("demo", "pre_text_here.yaml", "PrE-Text on the demo's texts with embedded models: about a minute."),
        Preset("paper", "papers/pre_text_imdb.yaml", "IMDb, the paper's settings, hub models (accelerator)."),
        Preset("own-data", "pre_text_own_data.yaml", OWN_DATA, ("private.path",)),
        Preset("federated", "federated_pre_text_here.yaml", PARTIES, ("parties.registry", "parties.exchange")),
    ),
    releases=vote_releases,
)
