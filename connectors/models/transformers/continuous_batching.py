"""Continuous batching of transformers: a finished row is replaced immediately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from connectors.interfaces.errors import FinalError
from connectors.interfaces.models import Completion
from connectors.models.transformers.hub_files import quiet
from connectors.models.transformers.loading import Loaded
from connectors.models.transformers.options import HfOptions
from connectors.models.transformers.sampling import SamplingRequest

CPU_ROWS, CPU_TOKENS = 64, 2048


def answer_continuously(
    loaded: Loaded, options: HfOptions, requests: Sequence[SamplingRequest], deliver: Callable[[int, Completion], None]
) -> None:
    """Complete requests with the model's continuous batching; deliver each at its end.

    Worthwhile on an accelerator; on a CPU one static batch of 64 is three to five times as fast. Raises FinalError if
    the library's thread dies.
    """
    open_requests = {str(request.position): request for request in requests}
    if not open_requests:
        return
    config = _generation(loaded, options, max(request.new for request in requests))
    start = loaded.model.continuous_batching_context_manager
    with (
        quiet(),
        start(generation_config=config, continuous_batching_config=_room(loaded, requests), timeout=5) as manager,
    ):
        for key, request in open_requests.items():
            manager.add_request(request.ids, request_id=key, max_new_tokens=request.new)
        while open_requests:
            result = manager.get_result(timeout=1)
            if result is None:
                if not manager.is_running():
                    raise FinalError(
                        f"Continuous batching ended with {len(open_requests)} requests open. Set continuous: false."
                    )
            elif result.is_finished():
                request = open_requests.pop(result.request_id)
                deliver(request.position, _completion(loaded, request, result))


def _completion(loaded: Loaded, request: SamplingRequest, result: Any) -> Completion:
    if result.error:
        return Completion("", "error", error=str(result.error))
    tokens = list(result.generated_tokens)
    is_ended = bool(tokens) and tokens[-1] in loaded.eos
    text = loaded.tokenizer.decode(tokens[:-1] if is_ended else tokens, skip_special_tokens=True)
    return Completion(text.strip(), "stop" if is_ended else "length", len(request.ids), len(tokens))


def _room(loaded: Loaded, requests: Sequence[SamplingRequest]) -> Any:
    from transformers import ContinuousBatchingConfig

    if loaded.device.type != "cpu":
        return None
    # By default the library takes most of the machine's memory, which takes half a minute to fill.
    page = ContinuousBatchingConfig().page_size
    longest = max(len(request.ids) + request.new for request in requests)
    rows = min(len(requests), CPU_ROWS)
    return ContinuousBatchingConfig(num_blocks=rows * (longest // page + 2), max_batch_tokens=max(longest, CPU_TOKENS))


def _generation(loaded: Loaded, options: HfOptions, new: int) -> Any:
    from transformers import GenerationConfig

    # Set do_sample explicitly: a temperature alone does not enable sampling.
    sampled = options.temperature > 0
    drawn = {"temperature": options.temperature, "top_p": options.top_p, "top_k": options.top_k} if sampled else {}
    eos = list(loaded.eos) or None
    return GenerationConfig(do_sample=sampled, max_new_tokens=new, eos_token_id=eos, pad_token_id=loaded.pad, **drawn)
