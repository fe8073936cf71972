"""PrE-Text: a population evolves through votes of private records and masked words (Hou et al. 2024)."""

from flows.method import Method
from flows.methods.pre_text.config import PreTextConfig
from flows.methods.voting import vote_releases

METHOD = Method(
    name="pre_text",
    config=PreTextConfig,
    summary="a population evolves through votes of the private rows and masked words; language models write more texts "
    "like the survivors",
    releases=vote_releases,
)
