"""Rate of paid calls beside bare HTTP, the vendor's SDK, litellm and threads, against a server that takes 200 ms.

Ours stores every completion and reserves and pays every call, as in a run. Each of 32 rounds fills all calls in flight.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import Purse
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import OpenAIModel
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, in_turns, line
from tests.support.paths import ROOT

LATENCY = 0.2
LEVELS = (64, 256)
"""Calls in flight, as the goals name them."""

ROUND_TRIPS = 32
PRICE = {"input": 1.0, "output": 1.0, "date": "2026-11-01"}
BARE, SDK, LITELLM, THREADS, LOOP = "bare aiohttp", "OpenAI's SDK", "litellm", "threads, sync SDK", "a plain loop"


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


def ours(connector: Any, url: str, asked: list[Prompt], in_flight: int) -> None:
    """Request completions as a run does: claimed, paid, stored."""
    options = {"endpoint": url, "key": "none", "concurrency": in_flight, "price": PRICE}
    folder = Path(tempfile.mkdtemp())
    try:
        model = connector.from_spec(ModelSpec("benchmark", "api", "some-model", options))
        purse = Purse(folder / "spent.jsonl", most=1000.0)
        answers = Recording(model, CompletionStore(folder / "completions"), purse=purse).complete(asked)
    finally:
        shutil.rmtree(folder)
    assert all(answer.finish_reason == "stop" for answer in answers)
    assert purse.spent > 0


def body(prompt: Prompt) -> dict[str, Any]:
    """Return the request that every peer sends."""
    messages = [{"role": "user", "content": prompt.text}]
    return {"model": "some-model", "messages": messages, "max_tokens": prompt.max_tokens}


def bare(url: str, asked: list[Prompt], in_flight: int) -> None:
    """Post them by aiohttp alone."""
    import aiohttp

    async def main() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def create(prompt: Prompt) -> str:
                async with session.post(f"{url}/chat/completions", json=body(prompt)) as response:
                    return str((await response.json())["choices"][0]["message"]["content"])

            await gathered(create, asked, in_flight)

    asyncio.run(main())


def sdk(url: str, asked: list[Prompt], in_flight: int) -> None:
    """Send them by the asynchronous client of the OpenAI SDK."""
    import openai

    async def main() -> None:
        http = openai.DefaultAioHttpClient()
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=http) as client:

            async def create(prompt: Prompt) -> str:
                return str((await client.chat.completions.create(**body(prompt))).choices[0].message.content)

            await gathered(create, asked, in_flight)

    asyncio.run(main())


def litellm(url: str, asked: list[Prompt], in_flight: int) -> None:
    """Send them by litellm."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import downloads a list of prices
    from litellm import acompletion

    async def create(prompt: Prompt) -> str:
        request = body(prompt) | {"model": "openai/some-model", "api_base": url, "api_key": "none", "num_retries": 0}
        return str((await acompletion(**request)).choices[0].message.content)

    asyncio.run(gathered(create, asked, in_flight))


async def gathered(create: Callable[[Prompt], Awaitable[str]], asked: list[Prompt], in_flight: int) -> None:
    """Call `create` for every prompt, so many at once."""
    room = asyncio.Semaphore(in_flight)

    async def one(prompt: Prompt) -> str:
        async with room:
            return await create(prompt)

    assert all(await asyncio.gather(*map(one, asked)))


def threads(url: str, asked: list[Prompt], in_flight: int) -> None:
    """Send them by threads over the synchronous client of the OpenAI SDK."""
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    with ThreadPoolExecutor(in_flight) as pool:
        assert all(pool.map(lambda prompt: client.chat.completions.create(**body(prompt)).choices, asked))


def api(tiny: bool) -> list[Line]:
    """Our two connectors and the peers, with 64 and 256 calls in flight."""
    levels, trips, rounds = ((8,), 2, 1) if tiny else (LEVELS, ROUND_TRIPS, 3)
    lines: list[Line] = []
    with server() as url:
        for level in levels:
            lines += _level(url, level, trips, rounds)
    return lines


def _level(url: str, level: int, trips: int, rounds: int) -> list[Line]:
    asked, openai_url = prompts(trips * level), f"{url}/v1"
    arms = {
        BARE: lambda: bare(openai_url, asked, level),
        "openai": lambda: ours(OpenAIModel, openai_url, asked, level),
        "anthropic": lambda: ours(AnthropicModel, url, asked, level),
        SDK: lambda: sdk(openai_url, asked, level),
        LITELLM: lambda: litellm(openai_url, asked, level),
        THREADS: lambda: threads(openai_url, asked, level),
    }
    if importlib.util.find_spec("litellm") is None:
        del arms[LITELLM]
    taken = in_turns(arms, rounds)
    goals = {BARE: f"P16-{level}"} | ({LOOP: "P17-loop"} if level == LEVELS[0] else {THREADS: "P17"})
    peers = [peer for peer in arms if peer not in ("openai", "anthropic")]
    lines = []
    for connector, peer in [*(("openai", peer) for peer in peers), ("anthropic", BARE)]:
        share, peer_share = (trips * LATENCY / median(taken[arm]) for arm in (connector, peer))
        note = f"{share:.2f} of the ideal rate with store and money; {peer}: {peer_share:.2f}"
        one = line("api", f"{connector}, {level} in flight", peer, taken[connector], taken[peer], note)
        lines.append(toward(one, goals[peer], 1 / one.ratio) if level in LEVELS and peer in goals else one)
    return lines


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = time.perf_counter()
    for measured in api(tiny="tiny" in sys.argv):
        sys.stdout.write(f"{measured.case} / {measured.against}: {measured.ratio:.3f} ({measured.note})\n")
    sys.stdout.write(f"{time.perf_counter() - started:.0f} seconds\n")
