"""Bodies of the documented OpenAI and Anthropic answers, errors included."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    """Reply of a server: `body` JSON or raw bytes. `drop`: hang up instead. `dribble`: seconds between bytes."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    cut: bool = False
    dribble: float = 0.0
    content_type: str = "application/json"

    @property
    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Request:
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: Any
    at: float = 0.0

    @property
    def anthropic(self) -> bool:
        return "/messages" in self.path

    @property
    def legacy(self) -> bool:
        return self.path.split("?")[0].endswith("/completions") and "/chat/" not in self.path

    @property
    def prompt(self) -> str:
        if self.legacy:
            return str(self.body["prompt"])
        return str(self.body["messages"][-1]["content"])

    @property
    def key(self) -> str:
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return bearer or self.headers.get("x-api-key", "") or self.headers.get("api-key", "")


def text_for(request: Request) -> str:
    """Return a text that depends on prompt and seed alone."""
    mark = hashlib.sha256(f"{request.prompt}|{request.body.get('seed')}".encode()).hexdigest()[:10]
    return f"A text numbered {mark} with some words."


def prompt_tokens(request: Request) -> int:
    """Return the tokens of a prompt: a short one has 11, a longer one a token for four bytes."""
    return max(11, len(request.prompt.encode()) // 4)


def ok(
    request: Request,
    text: str | None = "",
    finish: str = "stop",
    tokens: tuple[int, int] | None = None,
) -> Reply:
    """Return an answer in the format of the request's API. `text` '': one made of the prompt; None: null."""
    tokens = tokens or (prompt_tokens(request), 7)
    text = text_for(request) if text == "" else text
    if request.anthropic:
        return Reply(body=message(request, text, finish, tokens))
    usage = {
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "total_tokens": sum(tokens),
    }
    choices = [choice_of(request, text, finish)]
    kind = "text_completion" if request.legacy else "chat.completion"
    model = request.body["model"]
    return Reply(
        body={
            "id": "x-1",
            "object": kind,
            "created": 1,
            "model": model,
            "choices": choices,
            "usage": usage,
        }
    )


def choice_of(request: Request, text: str | None, finish: str, index: int = 0) -> dict[str, Any]:
    """Return one choice of a chat or legacy completion."""
    choice: dict[str, Any] = {"index": index, "finish_reason": finish, "logprobs": None}
    if request.legacy:
        return choice | {"text": text}
    return choice | {"message": {"role": "assistant", "content": text, "refusal": None}}


def several(request: Request, texts: list[str | None] | None = None) -> Reply:
    """Return an answer with as many choices as the request is for, or with these texts; each has 7 tokens."""
    if texts is None:
        texts = [
            f"{text_for(request)} Choice {index}." for index in range(request.body.get("n", 1))
        ]
    reply = ok(request, tokens=(prompt_tokens(request), 7 * len(texts)))
    reply.body["choices"] = [
        choice_of(request, text, "stop", index) for index, text in enumerate(texts)
    ]
    return reply


def message(
    request: Request, text: str | None, finish: str, tokens: tuple[int, int]
) -> dict[str, Any]:
    """Return the body of an Anthropic message."""
    reasons = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    content = [] if text is None else [{"type": "text", "text": text}]
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": request.body["model"], "content": content,
        "stop_reason": reasons.get(finish, finish), "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def failure(
    status: int,
    message: str = "trouble",
    kind: str = "server_error",
    code: str | None = None,
    **more: Any,
) -> Reply:
    """Return an error body that both SDKs understand. `headers`, `param`, `delay` by name."""
    error = {"message": message, "type": kind, "code": code, "param": more.pop("param", None)}
    return Reply(status=status, body={"type": "error", "error": error}, **more)


def no_choices(request: Request) -> Reply:
    """Return an answer that was paid and holds nothing."""
    reply = ok(request)
    reply.body["content" if request.anthropic else "choices"] = []
    return reply


def with_usage(request: Request, usage: Any, text: str | None = "", finish: str = "stop") -> Reply:
    """Return an answer with another `usage`; None leaves it out, as many proxies and compatible servers do."""
    reply = ok(request, text, finish)
    del reply.body["usage"]
    if usage is not None:
        reply.body["usage"] = usage
    return reply


def billed_tokens(request: Request, text: str) -> tuple[int, int]:
    """Return the tokens that a vendor bills: one for four bytes, and four more for each message's role."""
    asked = request.body.get("messages") or [{"content": request.body["prompt"]}]
    parts = [str(message["content"]) for message in asked] + [str(request.body.get("system") or "")]
    tokens_in = sum(4 + -(-len(part.encode()) // 4) for part in parts if part)
    return tokens_in, max(1, -(-len(text.encode()) // 4))
