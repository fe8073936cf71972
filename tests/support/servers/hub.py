"""A hub of models on loopback: settings and sizes of made-up models, and no weights."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REMOTE_CODE = {
    "auto_map": {"AutoModel": "modeling_chatglm.Model"},
    "model_type": "chatglm",
}
"""Settings of a model that only code of its authors opens."""


@dataclass
class HubModel:
    """A model of the hub: config.json, sizes of its files in bytes; `gated`: nobody here has access."""

    settings: dict[str, Any]
    files: dict[str, int] = field(default_factory=dict)
    gated: bool = False


@contextmanager
def hub_of(models: dict[str, HubModel]) -> Iterator[str]:
    """Serve models by id; yield the address for HF_ENDPOINT."""

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.split("?")[0].removeprefix("/").removeprefix("api/models/")
            name = path.split("/resolve/")[0].split("/revision/")[0]
            model = models.get(name)
            if model is None:
                self.reply(404, {}, "RepoNotFound")
            elif "/resolve/" not in path:
                files = [{"rfilename": file, "size": size} for file, size in model.files.items()]
                gated = "manual" if model.gated else False
                self.reply(200, {"id": name, "siblings": files, "gated": gated, "sha": COMMIT})
            elif model.gated:
                self.reply(403, {}, "GatedRepo")
            elif path.endswith("/config.json"):
                self.reply(200, model.settings)
            else:
                self.reply(404, {}, "EntryNotFound")

        do_HEAD = do_GET

        def reply(self, status: int, value: object, error: str = "") -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            headers = {
                "X-Error-Code": error,
                "ETag": "x",
                "X-Repo-Commit": COMMIT,
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }
            for name, text in headers.items():
                self.send_header(name, text)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
