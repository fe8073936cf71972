"""The batch APIs of both vendors, as a plan for `VendorServer`: batches end after so many looks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers.vendor_messages import Reply, Request, billed_tokens, failure, ok, text_for, with_usage

TIME = "2099-01-01T00:00:00Z"


@dataclass
class BatchBook:
    """What was handed in. `looks`: how often a batch is still running; `bad`: replies by prompt, None: left out.

    `room`: requests of running batches that fit in the queue; a larger batch of OpenAI's fails. `usage`: whether
    answers report tokens; `billed`: the tokens (in, out) that the vendor bills.
    """

    looks: int = 2
    bad: dict[str, Reply | None] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    url: Callable[[], str] = lambda: ""
    forget_submission: bool = False
    room: int | None = None
    usage: bool = True
    billed: list[tuple[int, int]] = field(default_factory=list)

    @property
    def submitted(self) -> int:
        return len(self.batches)

    def __call__(self, request: Request) -> Reply | None:
        method, path = request.headers[":method"], request.path.split("?")[0]
        if path == "/v1/files":
            return self.upload(request)
        if match := re.fullmatch(r"/v1/files/(.+)/content", path):
            return Reply(body=self.files[match[1]], content_type="application/octet-stream")
        if path in ("/v1/batches", "/v1/messages/batches"):
            return self.create(request) if method == "POST" else self.listed(path)
        if match := re.fullmatch(r"/v1/messages/batches/([^/]+)/results", path):
            return Reply(body=self.files["results-" + match[1]], content_type="application/x-jsonl")
        if match := re.fullmatch(r"/v1/(?:messages/)?batches/([^/]+)", path):
            self.batches[match[1]]["seen"] += 1
            return Reply(body=self.shown(match[1]))
        return None

    def upload(self, request: Request) -> Reply:
        name = f"file-{len(self.files)}"
        body = request.raw.split(b"\r\n\r\n")
        self.files[name] = next(part for part in body if part.lstrip().startswith(b"{")).split(b"\r\n--")[0]
        return Reply(body={"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "x",
                           "purpose": "batch", "status": "processed"})  # fmt: skip

    def create(self, request: Request) -> Reply:
        number = f"batch-{len(self.batches)}"
        anthropic = "messages" in request.path
        if anthropic:
            asked = {entry["custom_id"]: entry["params"] for entry in request.body["requests"]}
        else:
            lines = self.files[request.body["input_file_id"]].decode().splitlines()
            asked = {entry["custom_id"]: entry["body"] for entry in map(json.loads, filter(None, lines))}
        running = sum(
            len(one["asked"]) for one in self.batches.values() if not one["failed"] and one["seen"] <= self.looks
        )
        failed = self.room is not None and not anthropic and running + len(asked) > self.room
        self.batches[number] = {"asked": asked, "seen": 0, "anthropic": anthropic, "failed": failed,
                                "metadata": request.body.get("metadata")}  # fmt: skip
        self.answer(number)
        if self.forget_submission:
            self.forget_submission = False
            return Reply(drop=True)
        return Reply(body=self.shown(number))

    def answer(self, number: str) -> None:
        batch = self.batches[number]
        lines = []
        for name, body in reversed(batch["asked"].items()):
            request = Request("/v1/messages" if batch["anthropic"] else "/v1/chat/completions", {}, body)
            good = ok(request) if self.usage else with_usage(request, None)
            reply = self.bad.get(request.prompt, good)
            self.billed.append(billed_tokens(request, text_for(request)))
            if reply is None:
                continue
            if batch["anthropic"]:
                message = {"type": "succeeded", "message": reply.body}
                result = message if reply.status == 200 else {"type": "errored", "error": reply.body}
                lines.append({"custom_id": name, "result": result})
            else:
                response = {"status_code": reply.status, "request_id": "r", "body": reply.body}
                lines.append({"id": "x", "custom_id": name, "response": response, "error": None})
        self.files["results-" + number] = "\n".join(map(json.dumps, lines)).encode()

    def shown(self, number: str) -> dict[str, Any]:
        batch = self.batches[number]
        total, ended = len(batch["asked"]), batch["seen"] > self.looks
        if batch["anthropic"]:
            counts = {"processing": 0 if ended else total, "succeeded": total if ended else 0,
                      "errored": 0, "canceled": 0, "expired": 0}  # fmt: skip
            return {"id": number, "type": "message_batch", "processing_status": "ended" if ended else "in_progress",
                    "request_counts": counts, "created_at": TIME, "expires_at": TIME, "cancel_initiated_at": None,
                    "results_url": f"{self.url()}/v1/messages/batches/{number}/results"}  # fmt: skip
        if batch["failed"]:
            limit = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m", "line": None}
            return {"id": number, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h",
                    "created_at": 1, "input_file_id": "f", "status": "failed", "metadata": batch["metadata"],
                    "errors": {"object": "list", "data": [limit]}}  # fmt: skip
        done = total if ended else 0
        return {"id": number, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h",
                "created_at": 1, "input_file_id": "f", "status": "completed" if ended else "in_progress",
                "metadata": batch["metadata"], "output_file_id": f"results-{number}" if ended else None,
                "request_counts": {"total": total, "completed": done, "failed": 0}}  # fmt: skip

    def listed(self, path: str) -> Reply:
        anthropic = "messages" in path
        shown = [self.shown(name) for name, batch in reversed(self.batches.items()) if batch["anthropic"] == anthropic]
        return Reply(body={"object": "list", "data": shown, "has_more": False, "first_id": None, "last_id": None})


__all__ = ["BatchBook", "failure"]
