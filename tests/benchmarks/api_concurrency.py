"""Rate of paid calls: our connectors beside a thread pool over the synchronous SDK, against a server that takes 200 ms.

A ratio of 1 is the ideal: ceil(calls / in flight) round trips. As a program it prints the ratios as JSON:
`python -m tests.benchmarks.api_concurrency`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from connectors.anthropic_model import AnthropicModel
from connectors.base import ModelSpec, Prompt
from connectors.openai_model import OpenAIModel

LATENCY = 0.2
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def server(latency: float = LATENCY) -> Iterator[str]:
    """Run the vendor server in a process of its own; yield its address."""
    command = [sys.executable, "-m", "tests.vendor_server", str(latency)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def prompts(count: int) -> list[Prompt]:
    """Different prompts of about 1 kB."""
    return [
        Prompt(f"Number {i}. " + "Write a short text like the ones above. " * 25, "a", seed=i) for i in range(count)
    ]


def ours(connector: Any, url: str, asked: list[Prompt], in_flight: int) -> float:
    """Return the seconds that a connector takes."""
    options = {"endpoint": url, "key": "none", "concurrency": in_flight}
    model = connector.from_spec(ModelSpec("benchmark", "api", "some-model", options))
    began = time.perf_counter()
    answers = model.complete(asked)
    seconds = time.perf_counter() - began
    assert all(answer.finish_reason == "stop" for answer in answers)
    return seconds


def threads(create: Callable[[Prompt], Any], asked: list[Prompt], in_flight: int) -> float:
    """Return the seconds that threads over a synchronous client take."""
    began = time.perf_counter()
    with ThreadPoolExecutor(in_flight) as pool:
        assert all(list(pool.map(create, asked)))
    return time.perf_counter() - began


def sync_openai(url: str) -> Callable[[Prompt], Any]:
    """Return a call through the synchronous OpenAI client."""
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)

    def create(prompt: Prompt) -> Any:
        messages: Any = [{"role": "user", "content": prompt.text}]
        answer = client.chat.completions.create(model="m", messages=messages, max_tokens=prompt.max_tokens)
        return answer.choices[0].message.content

    return create


def sync_anthropic(url: str) -> Callable[[Prompt], Any]:
    """Return a call through the synchronous Anthropic client."""
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def create(prompt: Prompt) -> Any:
        messages: Any = [{"role": "user", "content": prompt.text}]
        return client.messages.create(model="m", messages=messages, max_tokens=prompt.max_tokens).content

    return create


def ratios(calls: int = 2000, levels: tuple[int, ...] = (64, 256)) -> dict[str, float]:
    """Return achieved rate / ideal rate per way and level, all against one server in one run."""
    found: dict[str, float] = {}
    with server() as url:
        warm = prompts(8)
        ours(OpenAIModel, url + "/v1", warm, 8)
        ours(AnthropicModel, url, warm, 8)
        for level in levels:
            ideal = math.ceil(calls / level) * LATENCY
            ways: dict[str, Callable[[list[Prompt]], float]] = {
                "openai": lambda asked, n=level: ours(OpenAIModel, url + "/v1", asked, n),
                "openai_threads": lambda asked, n=level: threads(sync_openai(url + "/v1"), asked, n),
                "anthropic": lambda asked, n=level: ours(AnthropicModel, url, asked, n),
                "anthropic_threads": lambda asked, n=level: threads(sync_anthropic(url), asked, n),
            }
            for name, way in ways.items():
                found[f"{name}_{level}"] = round(ideal / way(prompts(calls)), 3)
    return found


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.stdout.write(json.dumps(ratios(*map(int, sys.argv[1:2])), indent=1) + "\n")
