"""DP-KPS: phrases drawn from noisy densities of private records seed the prompts (Nagesh et al. 2025)."""

from flows.method import Method
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.dp_kps.releases import (
    keyphrase_releases,
    random_phrases,
    vocabulary_contents,
)

METHOD = Method(
    name="dp_kps",
    config=DpKpsConfig,
    summary="phrases drawn from noisy densities of the private rows' phrases seed the prompts of language models",
    releases=keyphrase_releases,
    contents=vocabulary_contents,
    preview_phrases=random_phrases,
)
