"""A local HTTP server that speaks the documented OpenAI and Anthropic wire formats and misbehaves on demand.

As a program (`python -m tests.support.servers.vendor 0.2`) it prints its address and answers after so many seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from tests.support.servers.vendor_messages import Reply, Request, ok

Plan = Callable[[Request], Reply | None]


class VendorServer:
    """A server on loopback in a thread of its own.

    `script`: replies (or functions of the request) for the next requests in turn; after them `plan`, whose None means a
    good answer. `latency`: seconds before every answer. It counts what came in: `requests`, `most_in_flight`.
    """

    def __init__(self, latency: float = 0.0, plan: Plan = lambda request: None) -> None:
        self.latency, self.plan = latency, plan
        self.script: deque[Reply | Plan] = deque()
        self.requests: list[Request] = []
        self.in_flight = self.most_in_flight = 0
        self.port = 0
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def plm(self, **more: Any) -> dict[str, Any]:
        """Return the part of a configuration that makes this server's model the PLM `gpt`."""
        endpoint = self.url if more.get("connector") == "anthropic" else f"{self.url}/v1"
        address = {
            "connector": "openai",
            "model": "m",
            "endpoint": endpoint,
            "key": "env:VENDOR_KEY",
        }
        return {"name": "gpt", "max_tokens": 60, **address, **more}

    @property
    def count(self) -> int:
        return len(self.requests)

    @property
    def prompts(self) -> Counter[str]:
        """Number of requests of each prompt."""
        return Counter(request.prompt for request in self.requests)

    def __enter__(self) -> VendorServer:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        serving = self._loop.run_until_complete(self.start())
        self._ready.set()
        self._loop.run_forever()
        serving.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def start(self) -> asyncio.Server:
        serving = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), "127.0.0.1", 0, backlog=1024
        )
        self.port = serving.sockets[0].getsockname()[1]
        return serving

    def reply(self, request: Request) -> Reply:
        planned = self.script.popleft() if self.script else self.plan
        reply = planned if isinstance(planned, Reply) else planned(request)
        return reply or ok(request)


class Connection(asyncio.Protocol):
    """One keep-alive connection: requests in turn, each answered by a task."""

    def __init__(self, server: VendorServer) -> None:
        self.server, self.buffer = server, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.waiting = 0

    def connection_lost(self, error: Exception | None) -> None:
        self.server.in_flight -= self.waiting
        self.waiting = 0

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, rest = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        is_json = length and headers.get("content-type", "").startswith("application/json")
        body = json.loads(rest[:length]) if is_json else {}
        self.take(Request(lines[0].split(" ")[1], headers, body, time.monotonic()))

    def take(self, request: Request) -> None:
        server = self.server
        server.requests.append(request)
        self.waiting += 1
        server.in_flight += 1
        server.most_in_flight = max(server.most_in_flight, server.in_flight)
        reply = server.reply(request)
        wait = server.latency + reply.delay
        loop = asyncio.get_running_loop()
        if wait:
            loop.call_later(wait, self.send, reply)
        else:
            self.send(reply)

    def send(self, reply: Reply) -> None:
        if self.waiting:
            self.waiting -= 1
            self.server.in_flight -= 1
        if reply.drop:
            self.transport.abort()
            return
        payload = reply.payload
        lines = [
            f"HTTP/1.1 {reply.status} X",
            f"content-type: {reply.content_type}",
            f"content-length: {len(payload)}",
        ]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        if reply.cut:
            self.transport.write(head + payload[: len(payload) // 2])
            self.transport.close()
        elif reply.dribble:
            self.slow = asyncio.ensure_future(self.send_slowly(head + payload, reply.dribble))
        else:
            self.transport.write(head + payload)

    async def send_slowly(self, data: bytes, seconds: float) -> None:
        for start in range(len(data)):
            if self.transport.is_closing():
                return
            self.transport.write(data[start : start + 1])
            await asyncio.sleep(seconds)


async def serve(server: VendorServer) -> None:
    """Print the address and serve until the process is ended."""
    await server.start()
    sys.stdout.write(server.url + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(VendorServer(float(sys.argv[1]))))
