"""Rate and processor time of paid calls next to the bare SDK and bare HTTP, against a server that takes 200 ms.

Ours stores every completion and reserves and pays every call, as in a run. Each of 32 rounds fills all calls in flight.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import CostBudget
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import OpenAIModel
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, in_turns, line
from tests.support.paths import ROOT

LATENCY, ROUND_TRIPS = 0.2, 32
LEVELS = (64, 256)
"""Calls in flight, as the goals name them."""

PRICE = {"input": 1.0, "output": 1.0, "date": "2026-11-01"}
BARE, SDK = "bare aiohttp", "OpenAI's SDK"


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
    """Return different prompts of about 1 kB."""
    text = "Write a short text like the ones above. " * 25
    return [Prompt(f"Number {i}. {text}", "a", seed=i) for i in range(count)]


def ours(connector: Any, url: str, asked: list[Prompt], in_flight: int) -> None:
    """Request completions as a run does: claimed, paid, stored."""
    options = {"endpoint": url, "key": "none", "concurrency": in_flight, "price": PRICE}
    with tempfile.TemporaryDirectory() as folder:
        model = connector.from_spec(ModelSpec("benchmark", "api", "some-model", options))
        cost_budget = CostBudget(Path(folder) / "spent.jsonl", most=1000.0)
        answers = Recording(
            model, CompletionStore(Path(folder) / "completions"), cost_budget=cost_budget
        ).complete(asked)
    assert all(answer.finish_reason == "stop" for answer in answers)
    assert cost_budget.spent > 0


def body(prompt: Prompt) -> dict[str, Any]:
    """Return the request that every peer sends."""
    messages = [{"role": "user", "content": prompt.text}]
    return {"model": "some-model", "messages": messages, "max_tokens": prompt.max_tokens}


async def bare(url: str, asked: list[Prompt], in_flight: int) -> None:
    """Post them by aiohttp alone."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def create(prompt: Prompt) -> Any:
            async with session.post(f"{url}/chat/completions", json=body(prompt)) as response:
                return (await response.json())["choices"][0]["message"]["content"]

        await gathered(create, asked, in_flight)


async def sdk(url: str, asked: list[Prompt], in_flight: int) -> None:
    """Send them by the SDK on its aiohttp transport."""
    import openai

    http = openai.DefaultAioHttpClient()
    async with openai.AsyncOpenAI(
        base_url=url, api_key="none", max_retries=0, http_client=http
    ) as client:

        async def create(prompt: Prompt) -> Any:
            return (await client.chat.completions.create(**body(prompt))).choices[0].message.content

        await gathered(create, asked, in_flight)


async def gathered(
    create: Callable[[Prompt], Awaitable[Any]], asked: list[Prompt], in_flight: int
) -> None:
    """Call `create` for every prompt, so many at once."""
    room = asyncio.Semaphore(in_flight)

    async def call(prompt: Prompt) -> Any:
        async with room:
            return await create(prompt)

    assert all(await asyncio.gather(*map(call, asked)))


def api(tiny: bool) -> list[Line]:
    """Our two connectors and the peers, with 64 and 256 calls in flight."""
    levels, trips, rounds = ((8,), 2, 1) if tiny else (LEVELS, ROUND_TRIPS, 3)
    with server() as url:
        return [made for level in levels for made in _level(url, level, trips, rounds)]


def _level(url: str, level: int, trips: int, rounds: int) -> list[Line]:
    asked, spent = prompts(trips * level), dict[str, list[float]]()

    def timed(name: str, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            began = time.process_time()
            work()
            spent.setdefault(name, []).append(1000 * (time.process_time() - began) / len(asked))

        return run

    arms = {
        SDK: lambda: asyncio.run(sdk(f"{url}/v1", asked, level)),
        BARE: lambda: asyncio.run(bare(f"{url}/v1", asked, level)),
        "openai": lambda: ours(OpenAIModel, f"{url}/v1", asked, level),
        "anthropic": lambda: ours(AnthropicModel, url, asked, level),
    }
    taken, lines = in_turns({name: timed(name, work) for name, work in arms.items()}, rounds), []
    for connector, peer in (("openai", SDK), ("openai", BARE), ("anthropic", SDK)):
        mine, theirs = (
            f"{median(spent[arm]):.2f} ms of processor a call" for arm in (connector, peer)
        )
        note = f"{mine}, with store and money; {peer}: {theirs}"
        made = line(
            "api", f"{connector}, {level} in flight", peer, taken[connector], taken[peer], note
        )
        lines.append(
            toward(made, f"P16-{level}", 1 / made.ratio)
            if level in LEVELS and peer == SDK
            else made
        )
    return lines


if __name__ == "__main__":
    for measured in api(tiny="tiny" in sys.argv):
        sys.stdout.write(
            f"{measured.case} / {measured.against}: {measured.ratio:.3f} ({measured.note})\n"
        )
