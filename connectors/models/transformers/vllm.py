"""Language models on vLLM: its engine on this machine, or its server."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.interfaces.errors import ConfigError, FinalError, MissingPackageError
from connectors.interfaces.models import Completion, LanguageModel, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.transformers.loading import Loaded, dtype_of
from connectors.models.transformers.model import Deliver, HfModel
from connectors.models.transformers.options import HfOptions
from connectors.models.transformers.sampling import SamplingRequest
from connectors.models.vendors.openai import OpenAIModel, OpenAIOptions
from connectors.security.secrets import NO_KEY

PIECE = 256
"""Prompts that are given to the engine together; their completions are passed on together."""

CONSTRAINTS = ("json", "regex", "choice", "grammar")
"""Kinds of guided decoding: a JSON schema, a regular expression, a list of texts, a grammar (EBNF)."""

NOT_HERE = ("device", "batch", "token_budget", "continuous", "no_repeat_ngram_size", "bin_weights")
"""Options of `HfOptions` that vLLM decides itself or does not have."""


@dataclass(frozen=True, slots=True)
class VllmOptions(HfOptions):
    """Options of the engine: those of `HfOptions` except NOT_HERE, and arguments of `vllm.LLM`.

    engine: such as {tensor_parallel_size: 2, gpu_memory_utilization: 0.8, max_model_len: 8192}. guided: one of
    CONSTRAINTS with its value, such as {regex: "[0-9]+"}; every completion satisfies it.
    """

    engine: Mapping[str, Any] = field(default_factory=dict)
    guided: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, spec: ModelSpec) -> VllmOptions:
        """Check the options and model of a spec; ConfigError with a correction."""
        options = super(VllmOptions, cls).read(spec)
        assert isinstance(options, VllmOptions)
        refused = [name for name in NOT_HERE if name in spec.options]
        if refused:
            raise ConfigError(f"Model '{spec.name}': vLLM has no option {refused[0]}. Remove it.")
        if not isinstance(options.engine, Mapping):
            raise ConfigError(f"Model '{spec.name}': engine must be a mapping of arguments of vllm.LLM.")
        _check_guided(spec.name, options.guided)
        return options

    @property
    def decoding(self) -> dict[str, Any]:
        """The options besides model and precision that affect a completion."""
        decoding: dict[str, Any] = HfOptions.decoding.fget(self)  # type: ignore[attr-defined]
        return decoding | ({"guided": dict(self.guided)} if self.guided else {})


@dataclass(frozen=True, slots=True)
class VllmServerOptions(OpenAIOptions):
    """Options of a vLLM server's client: those of `OpenAIOptions`, and `guided` as in `VllmOptions`."""

    guided: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, spec: ModelSpec) -> VllmServerOptions:
        """Check the options of a spec; ConfigError with a correction. Own servers need no key."""
        options = super(VllmServerOptions, cls).read(replace(spec, options={"key": NO_KEY, **spec.options}))
        assert isinstance(options, VllmServerOptions)
        _check_guided(spec.name, options.guided)
        return options

    @property
    def decoding(self) -> dict[str, Any]:
        """The settings besides prompt and model that affect a completion."""
        decoding: dict[str, Any] = OpenAIOptions.decoding.fget(self)  # type: ignore[attr-defined]
        return decoding | ({"guided": dict(self.guided)} if self.guided else {})


class VllmServer(OpenAIModel):
    """A model behind `vllm serve`, whose interface is OpenAI's; see `VllmServerOptions`."""

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> VllmServer:
        """Open the model of a configuration, without calls; ConfigError if invalid."""
        return cls(spec.name, spec.model, VllmServerOptions.read(spec))

    def request(self, prompt: Prompt, count: int = 1, limit: str = "") -> dict[str, Any]:
        """Return the body of a request."""
        assert isinstance(self.options, VllmServerOptions)
        guided = {"structured_outputs": dict(self.options.guided)} if self.options.guided else {}
        return super().request(prompt, count, limit) | guided


class VllmModel(HfModel):
    """A model in a vLLM engine of this run, loaded on first use; see `VllmOptions`.

    Each prompt has its own seed, so that a repeated prompt gets the same completion up to rounding, which depends on
    the prompts that are computed together.
    """

    connector = "vllm"

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> LanguageModel:  # type: ignore[override]
        """Return the engine's model, or with `endpoint` the server's; ConfigError if invalid. Opens nothing."""
        if _is_server(spec):
            return VllmServer.from_spec(spec)
        return cls(spec.name, spec.model, VllmOptions.read(spec))

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check options, package, accelerator and files, or those of the server's client; ConfigError."""
        if _is_server(spec):
            VllmServer.check_spec(spec)
            return
        VllmOptions.read(spec)
        if importlib.util.find_spec("vllm") is None:
            raise MissingPackageError("vllm", "vllm")
        super().check_spec(spec)
        _require_device(spec.name)

    def _load(self) -> Loaded:
        _prepare()
        import vllm
        from vllm.platforms import current_platform

        options = self._options
        assert isinstance(options, VllmOptions)
        settings = {"dtype": dtype_of(options), "trust_remote_code": options.trust_remote_code}
        if current_platform.is_cpu():
            settings["enable_chunked_prefill"] = False  # with seeds, vLLM 0.32 for CPUs fails on half a prompt
        settings |= options.engine
        try:
            engine = vllm.LLM(model=str(self._folder), seed=0, **settings)
        except Exception as error:
            # vLLM, its plugins and models' own code raise many kinds of errors.
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise FinalError(
                f"Model '{self.name}': vLLM cannot load {self._folder}: {reason} Check options.engine, or use "
                "connector: hf."
            ) from error
        context = engine.llm_engine.model_config.max_model_len
        return Loaded(
            engine, engine.get_tokenizer(), None, seq2seq=False, eos=(), pad=0, context=context, token_bytes=0
        )

    def _complete_all(self, loaded: Loaded, prompts: Sequence[Any], deliver: Deliver) -> None:
        requests = []
        for position, prompt in enumerate(prompts):
            request = self._request(loaded, position, prompt)
            if isinstance(request, Completion):
                deliver(position, request)
            else:
                requests.append(request)
        for start in range(0, len(requests), PIECE):
            self._generate_piece(loaded, requests[start : start + PIECE], deliver)

    def _generate_piece(self, loaded: Loaded, requests: Sequence[SamplingRequest], deliver: Deliver) -> None:
        tokens = [{"prompt_token_ids": request.ids} for request in requests]
        sampling = [self._sampling(request) for request in requests]
        try:
            outputs = loaded.model.generate(tokens, sampling, use_tqdm=False)
        except Exception as error:
            # The engine's process reports every problem of its own as its end.
            self._close()
            raise FinalError(
                f"Model '{self.name}': vLLM's engine failed ({type(error).__name__}); its log above has the reason. "
                "Resume the run, with other options.engine if it fails again."
            ) from error
        for request, output in zip(requests, outputs, strict=True):
            written = output.outputs[0]
            reason = "length" if written.finish_reason == "length" else "stop"
            completion = Completion(written.text.strip(), reason, len(request.ids), len(written.token_ids))
            deliver(request.position, completion)

    def _sampling(self, request: SamplingRequest) -> Any:
        import vllm
        from vllm.sampling_params import StructuredOutputsParams

        options = self._options
        assert isinstance(options, VllmOptions)
        return vllm.SamplingParams(
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            repetition_penalty=options.repetition_penalty,
            stop=list(options.stop) or None,
            max_tokens=request.new,
            seed=request.seed % 2**63,
            structured_outputs=StructuredOutputsParams(**options.guided) if options.guided else None,
        )


def _is_server(spec: ModelSpec) -> bool:
    return bool(spec.options.get("endpoint") or spec.options.get("endpoints"))


def _check_guided(name: str, guided: Any) -> None:
    is_valid = isinstance(guided, Mapping) and len(guided) <= 1 and set(guided) <= set(CONSTRAINTS)
    if not is_valid:
        raise ConfigError(
            f"Model '{name}': guided must be one of {', '.join(CONSTRAINTS)} with its value, such as "
            '{regex: "[0-9]+"}.'
        )


def _prepare() -> None:
    """Give each engine a fresh process, because this one has threads; send no usage statistics."""
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def _require_device(name: str) -> None:
    _prepare()
    from vllm.platforms import current_platform

    if current_platform.is_unspecified():
        raise ConfigError(
            f"Model '{name}': vLLM finds no device for its engine on this machine. Set `endpoint` to a vLLM server "
            "elsewhere, or use connector: hf."
        )
