"""DP-KPS: phrases drawn from noisy densities of private records seed the prompts (Nagesh et al. 2025)."""

from __future__ import annotations

from flows.engine.method import OWN_DATA, Method, Preset
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.dp_kps.releases import check_sizes, keyphrase_releases, random_phrases, vocabulary_contents

METHOD = Method(
    name="dp_kps",
    flow_path="flows.methods.dp_kps.flow.dp_kps",
    config=DpKpsConfig,
    summary="phrases drawn from noisy densities of the private rows' phrases seed the prompts of language models",
    presets=(
        Preset("demo", "dp_kps_here.yaml", "DP-KPS on the demo's texts with embedded models: about a minute."),
        Preset("paper", "papers/dp_kps_dbpedia.yaml", "DBPedia-14 with the settings of Table 2, a paid model."),
        Preset(
            "mimic",
            "papers/dp_kps_mimic.yaml",
            "Your own copy of MIMIC: heart failure against all others (Table 2), a paid model.",
            ("private.path", "test.path", "public.path", "vocabulary.path"),
        ),
        Preset("own-data", "dp_kps_own_data.yaml", OWN_DATA, ("private.path", "vocabulary.path")),
    ),
    releases=keyphrase_releases,
    check=check_sizes,
    contents=vocabulary_contents,
    preview_phrases=random_phrases,
)
