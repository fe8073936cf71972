"""A vendor server whose answers are different short texts: `python -m tests.benchmarks.aug_pe.writer 0.05`.

A model at a temperature above zero seldom writes a text twice. Answers that depend on the prompt alone would be
repetitions for a peer that sends the same prompt for every text.
"""

import asyncio
import itertools
import sys

from tests.benchmarks.embed import short_texts
from tests.support.servers.vendor import VendorServer, serve
from tests.support.servers.vendor_messages import Reply, Request, ok

TEXTS = 1000
"""Different texts; the number of the request makes each answer unlike all others."""


def writer(latency: float) -> VendorServer:
    """Return the server, not yet started."""
    texts = short_texts(TEXTS)
    numbers = itertools.count()

    def write(request: Request) -> Reply:
        number = next(numbers)
        return ok(request, f"{texts[number % TEXTS]} {number}")

    return VendorServer(latency, plan=write)


if __name__ == "__main__":
    asyncio.run(serve(writer(float(sys.argv[1]))))
