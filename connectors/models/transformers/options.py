"""Options of local transformers models, and their validation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from connectors.interfaces.json_values import Json
from connectors.models.base.options import CHECKED, Stops


def _refuse_unigrams(size: int) -> int:
    """Refuse 1, which forbids the padding of a batch: completions would depend on their batch and never end."""
    if size == 1:
        raise PydanticCustomError("unigram", "Input should be 0 or at least 2")
    return size


@dataclass(frozen=True, config=CHECKED)
class HfOptions:
    """Options of a configuration.

    Request: chat (auto, yes, no: use of the tokenizer's chat template), template (a frame with {prompt} for models
    without a chat template), long_prompt (refuse a prompt that does not fit, or cut its beginning), max_tokens (upper
    limit for the task's value), stop (strings that end a completion).

    Decoding: temperature (0: always the likeliest token), top_p, top_k (0: off), no_repeat_ngram_size (0: off, else 2
    or more).
    temperature 1 and top_p 0.9 are the values of the published WASP code.

    Execution: device (auto, cpu, cuda, cuda:1, mps), dtype (auto: bfloat16 or float16 on an accelerator, float32 on a
    CPU), batch (maximum rows), keep_loaded (false: free the memory after each round).

    Files: revision. Code of a model's authors is never run.
    """

    chat: Literal["auto", "yes", "no"] = "auto"
    template: str = ""
    long_prompt: Literal["refuse", "cut"] = "refuse"
    max_tokens: int | None = Field(default=None, ge=1)
    stop: Stops = ()
    temperature: float = Field(default=1.0, ge=0, le=10)
    top_p: float = Field(default=0.9, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    no_repeat_ngram_size: Annotated[int, Field(ge=0), AfterValidator(_refuse_unigrams)] = 0
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch: int | None = Field(default=None, ge=1)
    keep_loaded: bool = True
    revision: str | None = None

    @model_validator(mode="after")
    def _check_template(self) -> HfOptions:
        if self.template and "{prompt}" not in self.template:
            raise ValueError(f"template must contain {{prompt}}, got {self.template!r}")
        if self.template and self.chat == "yes":
            raise ValueError('set either template or chat: "yes", not both')
        return self

    @property
    def decoding(self) -> Json:
        """The options besides model and precision that affect a completion."""
        names = (
            "chat",
            "template",
            "long_prompt",
            "max_tokens",
            "stop",
            "temperature",
            "top_p",
            "top_k",
        )
        # Identities of earlier versions contain these; without them their completions would be written again.
        earlier = {"chat_options": {}, "repetition_penalty": 1.0, "continuous": False}
        return {name: getattr(self, name) for name in (*names, "no_repeat_ngram_size")} | earlier
