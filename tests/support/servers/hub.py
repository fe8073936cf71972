"""A hub of models on loopback: settings and sizes of made-up models, or all files of a folder."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
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
    """A model of the hub: config.json, sizes of its files in bytes; `gated`: nobody here has access.

    `folder`: a model whose files are sent, in place of both. `broken`: files that end after half of their bytes.
    `commit`: the newest one. `sent`: commit and name of each file that was sent as a whole.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    gated: bool = False
    folder: Path | None = None
    broken: set[str] = field(default_factory=set)
    commit: str = COMMIT
    sent: list[tuple[str, str]] = field(default_factory=list)

    def sizes(self) -> dict[str, int]:
        if self.folder is None:
            return self.files
        return {file.name: file.stat().st_size for file in self.folder.iterdir()}

    def revision(self, name: str) -> str:
        """Return the commit of a revision."""
        if name in ("", "main"):
            return self.commit
        return name

    def content(self, name: str) -> bytes | None:
        """Return a file, None if there is none."""
        if self.folder is not None and (self.folder / name).exists():
            return (self.folder / name).read_bytes()
        if self.folder is None and name == "config.json":
            return json.dumps(self.settings).encode()
        return None


class _Handler(BaseHTTPRequestHandler):
    models: dict[str, HubModel]

    def do_GET(self) -> None:
        path = self.path.split("?")[0].removeprefix("/")
        parts = path.removeprefix("api/models/").split("/")
        model = self.models.get("/".join(parts[:2]))
        # resolve/COMMIT/FILE, revision/COMMIT, tree/COMMIT or nothing.
        kind, commit, *file = [*parts[2:], "", ""]
        if model is None:
            self.reply(404, {}, "RepoNotFound")
        elif kind == "resolve":
            self.send_content(model, model.revision(commit), "/".join(file).strip("/"))
        elif kind == "tree":
            sizes = model.sizes().items()
            entries = [
                {"type": "file", "path": name, "size": size, "oid": "0" * 40}
                for name, size in sizes
            ]
            self.reply(200, entries)
        else:
            self.reply(200, self.described("/".join(parts[:2]), model, model.revision(commit)))

    do_HEAD = do_GET

    def described(self, name: str, model: HubModel, commit: str) -> dict[str, object]:
        files = [{"rfilename": file, "size": size} for file, size in model.sizes().items()]
        gated = "manual" if model.gated else False
        return {"id": name, "siblings": files, "gated": gated, "sha": commit}

    def send_content(self, model: HubModel, commit: str, name: str) -> None:
        content = model.content(name)
        if model.gated:
            self.reply(403, {}, "GatedRepo")
            return
        if content is None:
            self.reply(404, {}, "EntryNotFound")
            return
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        # The ETag is the file's name in the cache.
        headers = {"ETag": f'"{name}-{len(content)}"', "X-Repo-Commit": commit}
        self.head(206 if start else 200, headers, len(content) - start)
        if self.command == "HEAD":
            return
        if name in model.broken:
            self.wfile.write(content[start : len(content) // 2])
            self.wfile.flush()
            self.connection.close()
            return
        model.sent.append((commit, name))
        self.wfile.write(content[start:])

    def reply(self, status: int, value: object, error: str = "") -> None:
        body = json.dumps(value).encode()
        headers = {
            "X-Error-Code": error,
            "ETag": "x",
            "X-Repo-Commit": COMMIT,
            "Content-Type": "application/json",
        }
        self.head(status, headers, len(body))
        if self.command == "GET":
            self.wfile.write(body)

    def head(self, status: int, headers: dict[str, str], length: int) -> None:
        self.send_response(status)
        for name, text in (headers | {"Content-Length": str(length)}).items():
            self.send_header(name, text)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hub_of(models: dict[str, HubModel]) -> Iterator[str]:
    """Serve models by id; yield the address for HF_ENDPOINT."""
    handler = type("Hub", (_Handler,), {"models": models})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
