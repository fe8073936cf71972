"""Rate of paid calls: our connectors beside a thread pool over the synchronous SDK, against a server that takes 200 ms.

The ideal is ceil(calls / in flight) round trips. 6,144 calls: what one run of the paper asks for (N = 6,000).
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import OpenAIModel
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, line
from tests.support.paths import ROOT

LATENCY = 0.2
LEVELS = (64, 256)
"""Calls in flight, as the goals name them."""


@contextmanager
def server(latency: float = LATENCY) -> Iterator[str]:
    """Run the vendor server in a process of its own; yield its address."""
    command = [sys.executable, "-m", "tests.support.servers.vendor", str(latency)]
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


def api(tiny: bool) -> list[Line]:
    """Both connectors with 64 and 256 calls in flight, against the ideal and against threads."""
    calls, levels, rounds = (16, (8,), 1) if tiny else (6144, LEVELS, 3)
    with server() as url:
        lines: list[Line] = []
        for level in levels:
            lines += _line(OpenAIModel, sync_openai(url + "/v1"), url + "/v1", (calls, level, rounds))
            lines += _line(AnthropicModel, sync_anthropic(url), url, (calls, level, rounds))
    return lines


def _line(connector: Any, create: Callable[[Prompt], Any], url: str, size: tuple[int, int, int]) -> list[Line]:
    calls, level, rounds = size
    asked = prompts(calls)
    ours_seconds: list[float] = []
    threads_seconds: list[float] = []
    ours(connector, url, asked[:level], level)
    threads(create, asked[:level], level)
    began = time.process_time()
    for _ in range(rounds):
        ours_seconds.append(ours(connector, url, asked, level))
    busy = (time.process_time() - began) / rounds / calls * 1000
    for _ in range(rounds):
        threads_seconds.append(threads(create, asked, level))
    ideal = math.ceil(calls / level) * LATENCY
    case = f"{connector.connector}, {level} in flight"
    share = ideal / statistics.median(ours_seconds)
    peer_share = ideal / statistics.median(threads_seconds)
    note = f"{share:.2f} of the ideal rate, {busy:.2f} ms of processor time per call"
    beside = line("api", case, "ideal", ours_seconds, [ideal] * rounds, note)
    told = f"threads: {peer_share:.2f} of the ideal"
    peers = line("api", case, "threads, sync SDK", ours_seconds, threads_seconds, told)
    if level == LEVELS[0]:
        beside = toward(beside, "P16", share)
    elif level == LEVELS[1]:
        beside = toward(beside, f"P16-{connector.connector}", share)
        peers = toward(peers, "P17", 1 / peers.ratio)
    return [beside, peers]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for one in api(tiny=False):
        sys.stdout.write(f"{one.case} / {one.against}: {one.ratio:.3f} ({one.note})\n")
