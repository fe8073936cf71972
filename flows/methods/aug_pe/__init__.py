"""Aug-PE: models vary their own texts, and votes of private records select survivors (Xie et al. 2024)."""

from __future__ import annotations

from flows.engine.method import OWN_DATA, Method, Preset
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.aug_pe.releases import aug_pe_releases
from flows.releases.vocabulary import vocabulary_content

METHOD = Method(
    name="aug_pe",
    flow_path="flows.methods.aug_pe.flow.aug_pe",
    config=AugPeConfig,
    summary="language models vary their own texts, and votes of the private rows select the survivors",
    presets=(
        Preset("demo", "aug_pe_here.yaml", "Aug-PE on the demo's texts with embedded models: about a minute."),
        Preset(
            "paper",
            "papers/aug_pe_yelp.yaml",
            "Yelp ratings, the paper's settings, hub models (accelerator).",
        ),
        Preset("own-data", "aug_pe_own_data.yaml", OWN_DATA, ("private.path",)),
        Preset("paper-wasp", "papers/aug_pe_wasp_imdb.yaml", "IMDb, baseline settings of the WASP paper (Table 1)."),
    ),
    releases=aug_pe_releases,
    contents=vocabulary_content,
)
