"""Aug-PE: models vary their own texts, and votes of private records select survivors (Xie et al. 2024)."""

from flows.method import Method
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.aug_pe.releases import aug_pe_releases
from flows.methods.vocabulary import vocabulary_content

METHOD = Method(
    name="aug_pe",
    config=AugPeConfig,
    summary="language models vary their own texts, and votes of the private rows select the survivors",
    releases=aug_pe_releases,
    contents=vocabulary_content,
)
