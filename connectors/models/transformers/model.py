"""Local language models of the transformers library, base and chat.

Both causal and sequence-to-sequence models are supported.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from connectors.interfaces.addresses import ModelName
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import FinalError, MissingPackageError
from connectors.interfaces.machine import machine_memory
from connectors.interfaces.models import (
    Completion,
    Keep,
    ModelSize,
    ModelSpec,
    Weights,
    keep_nothing,
)
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.base.options import read_options
from connectors.models.transformers import smollm2
from connectors.models.transformers.loading import (
    Loaded,
    check_files,
    content_of,
    dtype_of,
    load,
    model_folder,
)
from connectors.models.transformers.model_checks import Purpose
from connectors.models.transformers.model_sizes import measure_weights
from connectors.models.transformers.options import HfOptions
from connectors.models.transformers.prefill import can_prefill, pad
from connectors.models.transformers.sampling import RowLimit, Sampler, SamplingRequest

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase
    from transformers.utils import ModelOutput

VERSION = 1
"""Part of `identity`; raise it whenever the same prompt would get another completion."""

CPU_ROWS = 64
GPU_ROWS = 256
"""Rows of a batch at most."""
STRETCH = 24
"""New tokens after which finished rows leave a batch; most texts of a list are shorter."""
SHARE_OF_MEMORY = 0.4
"""Share of the accelerator's free memory, or the machine's memory, for one batch's keys and values."""

MINIMAL_COMPLETION = 64
"""Minimum room for the completion (or its own limit); otherwise a prompt is refused or cut."""

Deliver = Callable[[int, Completion], None]


class HfModel:
    """A transformers model in this process, loaded on first use.

    Thread-safe, one batch at a time. Prompts of similar length share a batch; causal models are padded on the left,
    with attention masks. Each row is sampled from a stream seeded by its prompt and this model's identity (see
    `sampling`). Therefore a prompt's completion is the same alone, in any batch and after a crash, up to rounding:
    always in practice in float32. In half precision many texts of 30 tokens differ between batches of other shapes. A
    batch that exceeds the accelerator's memory is halved until it fits.
    """

    connector = "hf"
    purpose: ClassVar[Purpose] = "write"
    options_type: ClassVar[type[HfOptions]] = HfOptions
    model_type: ClassVar[object] = ModelName

    def __init__(
        self, name: str, model: str, options: HfOptions | None = None, home: Path | None = None
    ) -> None:
        for package in ("transformers", "torch"):
            if importlib.util.find_spec(package) is None:
                raise MissingPackageError(package, "local")
        self.name = name
        self._model = model
        self._options = options or HfOptions()
        self._home = home
        self._lock = threading.RLock()
        self._loaded: Loaded | None = None
        self._most_rows: int | None = None
        self.batch_in_progress = 0
        """Prompts whose completions arrive next, all at once; 0 between batches."""

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> HfModel:
        """Describe the model of a configuration, unopened; ConfigError if invalid."""
        return cls(spec.name, spec.model, cls.options_of(spec), spec.home)

    @classmethod
    def options_of(cls, spec: ModelSpec) -> HfOptions:
        """Return the typed options of a configuration; ConfigError if one is invalid."""
        return read_options(HfOptions, spec)

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check options, packages, device and files; ConfigError. Loads no weights."""
        model = cls.from_spec(spec)
        check_files(spec.name, spec.model, model._options, cls.purpose)

    @classmethod
    def measure_spec(cls, spec: ModelSpec) -> ModelSize | None:
        """Return the size of the model's weights; None for a bundled model, or if the hub does not state it."""
        return measure_weights(spec.model, cls.options_of(spec), spec.home)

    def __reduce__(self) -> tuple[type[HfModel], tuple[object, ...]]:
        # The other process loads the weights again.
        return type(self), (self.name, self._model, self._options, self._home)

    @cached_property
    def identity(self) -> str:
        """Connector, version, precision, decoding, and hub commit or digests of the files."""
        with self._lock:
            settings = {"connector": self.connector, "version": VERSION, "dtype": self._dtype}
            return canonical({**settings, **self._content, **self._options.decoding})

    @property
    def weights(self) -> Weights:
        """The model's files, for further training."""
        with self._lock:
            return Weights(self._folder, canonical(self._content))

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; call `keep` after each batch.

        A prompt that exceeds the model's context gets finish_reason "error" (or is cut, by option). Raises FinalError
        if the model is not available or cannot be loaded, TemporaryError while the hub is unreachable.
        """
        completions: dict[int, Completion] = {}

        def deliver(position: int, completion: Completion) -> None:
            completions[position] = completion
            keep(position, completion)

        if prompts:
            with self._lock:
                try:
                    self._complete_all(self._open(), prompts, deliver)
                finally:
                    if not self._options.keep_loaded:
                        self._close()
        return [completions[position] for position in range(len(prompts))]

    def prepare(self) -> None:
        """Load the model, which a measurement of its speed must not contain."""
        with self._lock:
            self._open()

    def _complete_all(self, loaded: Loaded, prompts: Sequence[Prompt], deliver: Deliver) -> None:
        requests = []
        for position, prompt in enumerate(prompts):
            request = self._request(loaded, position, prompt)
            if isinstance(request, Completion):
                deliver(position, request)
            else:
                requests.append(request)
        try:
            for batch in self._batches(loaded, requests):
                self._run(loaded, batch, deliver)
        finally:
            self.batch_in_progress = 0

    @property
    def _content(self) -> dict[str, str]:
        return content_of(smollm2.CONTENT.get(self._model) or self._folder)

    @cached_property
    def _dtype(self) -> str:
        return dtype_of(self._options, self._model, self._home)

    @cached_property
    def _folder(self) -> Path:
        return model_folder(self.name, self._model, self._options, self._home)

    def _open(self) -> Loaded:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Loaded:
        return load(self.name, self._folder, self._options, self._dtype, self.purpose == "fill")

    def _close(self) -> None:
        import torch

        self._loaded = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _request(
        self, loaded: Loaded, position: int, prompt: Prompt
    ) -> SamplingRequest | Completion:
        ids = self._tokens(loaded, encodable(prompt.text), continues=bool(prompt.end))
        new = max(1, min(prompt.max_tokens, self._options.max_tokens or prompt.max_tokens))
        if loaded.context is not None:
            reserve = 0  # an encoder's context contains only the prompt
            if not loaded.seq2seq:
                reserve = min(new, MINIMAL_COMPLETION, max(1, loaded.context // 2))
            if len(ids) + reserve > loaded.context:
                if self._options.long_prompt == "refuse":
                    return _too_long(len(ids), reserve, loaded.context)
                # The beginning is cut, because the completion continues the end.
                ids = ids[len(ids) + reserve - loaded.context :]
            room = loaded.context
            if not loaded.seq2seq:
                room -= len(ids)
            new = min(new, room)
        stop = self._options.stop
        if prompt.end:
            stop = (*stop, prompt.end)
        return SamplingRequest(position, ids, new, prompt.stream_seed(self.identity), stop)

    def _tokens(self, loaded: Loaded, text: str, continues: bool) -> list[int]:
        tokenizer = loaded.tokenizer
        options = self._options
        has_template = bool(tokenizer.chat_template) and not continues
        templated = options.chat == "yes" or (options.chat == "auto" and has_template)
        if templated and not options.template:
            # The template contains the special tokens.
            text = _chat(tokenizer, text)
        elif options.template:
            text = options.template.replace("{prompt}", text)
        special = not templated or bool(options.template)
        ids = list(tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])
        if ids:
            return ids
        # Generation needs a token; some tokenizers return none for an empty text.
        first = (tokenizer.bos_token_id, *loaded.eos, 0)
        return [next(token for token in first if token is not None)]

    def _batches(
        self, loaded: Loaded, requests: Sequence[SamplingRequest]
    ) -> Iterator[list[SamplingRequest]]:
        budget = _affordable_tokens(loaded)
        rows = GPU_ROWS
        if loaded.device.type == "cpu":
            rows = CPU_ROWS
        if self._options.batch:
            rows = self._options.batch
        batch: list[SamplingRequest] = []
        longest = 0
        # Longest first: memory problems appear at once. Equal prompts side by side: they are computed once.
        for request in sorted(
            requests, key=lambda r: (r.stop, -r.new, -len(r.ids), r.ids, r.position)
        ):
            longest = max(longest, len(request.ids) + request.new)
            is_full = len(batch) >= rows or (len(batch) + 1) * longest > budget
            if batch and (is_full or request.stop != batch[0].stop):
                yield batch
                batch = []
                longest = len(request.ids) + request.new
            batch.append(request)
        if batch:
            yield batch

    def _run(self, loaded: Loaded, batch: Sequence[SamplingRequest], deliver: Deliver) -> None:
        import torch

        rows = self._most_rows or len(batch)
        if len(batch) <= rows:
            self.batch_in_progress = len(batch)
            try:
                completions = self._generate(loaded, batch)
            except torch.OutOfMemoryError:
                # Retried behind this block: within it, the exception would still hold the tensors of the batch.
                completions = None
            if completions is not None:
                for request, completion in zip(batch, completions, strict=True):
                    deliver(request.position, completion)
                return
            torch.cuda.empty_cache()
            rows = len(batch) // 2
            if rows == 0:
                error = f"one prompt of {len(batch[0].ids)} tokens does not fit into the memory of {loaded.device}"
                deliver(batch[0].position, Completion("", "error", error=error))
                return
            self._most_rows = rows
        for start in range(0, len(batch), rows):
            self._run(loaded, batch[start : start + rows], deliver)

    def _generate(self, loaded: Loaded, batch: Sequence[SamplingRequest]) -> list[Completion]:
        """Generate a batch."""
        if not can_prefill(loaded):
            return self._generate_plainly(loaded, batch)
        # Only here: the module defines a class of the library's, which is imported with the first model.
        from connectors.models.transformers.decoding import decode

        sampler = Sampler(self._options, [request.seed for request in batch], loaded.device)
        written = decode(loaded, batch, sampler)
        return [self._completion(loaded, *pair) for pair in zip(batch, written, strict=True)]

    def _generate_plainly(
        self, loaded: Loaded, batch: Sequence[SamplingRequest]
    ) -> list[Completion]:
        """Generate a batch by the library; rows that are finished after a stretch of tokens leave it."""
        # The library computes finished rows until the last one ends. After each stretch only open rows continue, with
        # their part of the cache and their own random streams, so each row gets the tokens that it would get alone.
        import torch
        from transformers import StoppingCriteriaList

        ids, mask = pad(loaded, [request.ids for request in batch], on_right=loaded.seq2seq)
        start = ids.shape[1]
        if loaded.seq2seq:  # a decoder starts with an additional token
            start = 1
        end = ids.shape[1] + max(request.new for request in batch)
        sampler = Sampler(self._options, [request.seed for request in batch], loaded.device)
        more: dict[str, object] = {}
        if batch[0].stop:  # the same for all rows, see `_batches`
            more = {"stop_strings": list(batch[0].stop), "tokenizer": loaded.tokenizer}
        completions: dict[int, Completion] = {}
        rows = list(range(len(batch)))
        while rows:
            requests = [batch[row] for row in rows]
            stretch = end - ids.shape[1]
            if (
                not loaded.seq2seq
            ):  # its output does not begin with its prompt, so it has no stretches
                stretch = min(STRETCH, stretch)
            with torch.inference_mode():
                output = loaded.model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    max_new_tokens=stretch,
                    do_sample=False,  # the noise of the sampler draws
                    logits_processor=sampler.processors,
                    stopping_criteria=StoppingCriteriaList([RowLimit(requests, start, ids.device)]),
                    return_dict_in_generate=True,
                    **more,
                )
            tokens = output.sequences[:, start:].tolist()
            made = [self._completion(loaded, *pair) for pair in zip(requests, tokens, strict=True)]
            # Of all rows: one that continues is replaced later.
            completions |= dict(zip(rows, made, strict=True))
            on = [
                n
                for n, row in enumerate(tokens)
                if made[n].finish_reason == "length" and len(row) < requests[n].new
            ]
            rows = [rows[n] for n in on]
            if rows:
                indices = torch.tensor(on, device=ids.device)
                width = mask.shape[1]
                ids = output.sequences[indices]
                mask = torch.cat(
                    [mask[indices], mask.new_ones(len(on), ids.shape[1] - width)], dim=1
                )
                sampler.select(on)
                more |= _cache_of(output, indices)
        return [completions[row] for row in range(len(batch))]

    def _completion(
        self, loaded: Loaded, request: SamplingRequest, row: Sequence[int]
    ) -> Completion:
        tokens = list(row[: request.new])
        end = next((i for i, token in enumerate(tokens) if token in loaded.eos), None)
        text = loaded.tokenizer.decode(tokens[:end], skip_special_tokens=True)
        first = text
        reason = "length"
        count = len(tokens)
        if end is not None:
            reason = "stop"
            count = end + 1
        for stop in request.stop:
            first = first.split(stop, 1)[0]
        if first != text:
            # The library pads a row after its stop string.
            while tokens and tokens[-1] in (*loaded.eos, loaded.pad):
                tokens.pop()
            reason = "stop"
            count = len(tokens)
        return Completion(first.strip(), reason, tokens_in=len(request.ids), tokens_out=count)


def _cache_of(output: ModelOutput, rows: torch.Tensor) -> dict[str, object]:
    """Return the cache of these rows for the next tokens; none, to compute it again, where it cannot drop rows."""
    cache: Any = getattr(output, "past_key_values", None)
    layers = getattr(cache, "layers", ())
    if not layers or not all(hasattr(layer, "batch_select_indices") for layer in layers):
        return {}
    cache.batch_select_indices(rows)
    return {"past_key_values": cache}


def _too_long(length: int, answer: int, context: int) -> Completion:
    return Completion(
        "",
        "error",
        tokens_in=0,
        error=f"the prompt has {length} tokens, the model holds {context} with a completion of at least {answer}. Show "
        "fewer examples (method.examples), or set options.long_prompt: cut",
    )


def _chat(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    if not tokenizer.chat_template:
        raise FinalError(
            "The tokenizer has no chat template; set options.chat to auto, or use options.template."
        )
    message = [{"role": "user", "content": text}]
    return str(tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True))


def _affordable_tokens(loaded: Loaded) -> int:
    import torch

    if loaded.device.type == "cuda":
        free = torch.cuda.mem_get_info(loaded.device)[0]
    else:
        free = machine_memory()
    return max(1, int(free * SHARE_OF_MEMORY / loaded.token_bytes))
