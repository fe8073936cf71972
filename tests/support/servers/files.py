"""A web server of made-up files for transfers (ranges, broken connections, slow answers), and a recipe of one file."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass
class FileServer:
    """Files by their path, and how they are sent.

    Attributes:
        files: contents by path.
        breaks: number of further answers that end after `break_after` bytes.
        statuses: HTTP statuses of the next answers instead of a file.
        takes_ranges: False sends the whole file to each request.
        states_length: False sends no Content-Length, as GitHub for its archives.
        pause: seconds between blocks of 1000 bytes.
        requests: path and range of each request.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    breaks: int = 0
    break_after: int = 0
    statuses: list[int] = field(default_factory=list)
    takes_ranges: bool = True
    states_length: bool = True
    pause: float = 0.0
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


class _Handler(BaseHTTPRequestHandler):
    served: FileServer

    def do_GET(self) -> None:
        path = unquote(self.path)
        asked = self.headers.get("Range")
        self.served.requests.append((path, asked))
        content = self.served.files.get(path, b"")
        start = 0
        if asked and self.served.takes_ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        status = self._status(path, start)
        if status >= 400:
            self.send_error(status)
            return
        self.send_response(status)
        if self.served.states_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self._send(content[start:])

    def _status(self, path: str, start: int) -> int:
        if self.served.statuses:
            return self.served.statuses.pop(0)
        if path not in self.served.files:
            return 404
        if start >= len(self.served.files[path]):
            return 416
        return 206 if start else 200

    def _send(self, content: bytes) -> None:
        if self.served.breaks:
            self.served.breaks -= 1
            self.wfile.write(content[: self.served.break_after])
            self.wfile.flush()
            self.connection.close()
            return
        for begin in range(0, len(content), 1000):
            self.wfile.write(content[begin : begin + 1000])
            self.wfile.flush()
            time.sleep(self.served.pause)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def file_server() -> Iterator[FileServer]:
    """Start a server on a free port; yield it."""
    server = FileServer()
    listening = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (_Handler,), {"served": server})
    )
    server.address = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def recipe_values(server: FileServer, **file: Any) -> dict[str, Any]:
    """Return the values of a recipe with one CSV file; `file`: further fields of the file."""
    return {
        "title": "Made-up rows",
        "about": "Rows of a test.",
        "licence": "CC0",
        "citation": "None.",
        "sources": {
            "rows": {
                "base": f"{server.address}/set",
                "format": "csv",
                "files": [{"path": "rows.csv", **file}],
            }
        },
        "tables": {"rows": [{"read": "rows"}, {"shuffle": 0}]},
        "outputs": {"mine/train.parquet": {"table": "rows"}},
    }
