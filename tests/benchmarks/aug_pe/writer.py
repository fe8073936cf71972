"""A vendor server whose answers are different short texts: `python -m tests.benchmarks.aug_pe.writer 0.05`.

A model at a temperature above zero seldom writes a text twice. Answers that depend on the prompt alone would be
repetitions for a peer that sends the same prompt for every text.
"""

import asyncio
import itertools
import sys

from tests.benchmarks.embed import short_texts
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request, ok

TEXTS = 1000
"""Different texts; the number of the request makes each answer unlike all others."""


async def serve(latency: float) -> None:
    """Print the address and serve until the process is ended."""
    texts = short_texts(TEXTS)
    numbers = itertools.count()

    def write(request: Request) -> Reply:
        number = next(numbers)
        return ok(request, f"{texts[number % TEXTS]} {number}")

    server = VendorServer(latency, plan=write)
    await server.start()
    sys.stdout.write(server.url + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
