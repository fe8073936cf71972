"""The real server of transformers with a tiny chat model, driven through the real client of OpenAI."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.models.tiny import tiny_models as tiny_models
from tests.support.servers.transformers import transformers_server

pytest.importorskip("torch")
openai = pytest.importorskip("openai")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def server(tiny_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Base URL and model id of a running server."""
    with transformers_server(tiny_models["llama"], tmp_path_factory.mktemp("serve")) as url:
        yield url, str(tiny_models["llama"])


@pytest.fixture
def client(server: tuple[str, str]):
    with openai.OpenAI(base_url=server[0], api_key="none needed", max_retries=0, timeout=60) as made:
        yield made


def ask(client, model: str, **more):
    message = [{"role": "user", "content": "Write one positive text."}]
    return client.chat.completions.create(model=model, messages=message, max_tokens=12, seed=3, **more)


def test_the_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["tiny/llama"]


def test_a_chat_completion_has_text_usage_and_a_reason(client, server):
    answer = ask(client, server[1])
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in {"stop", "length"}
    assert 1 <= answer.usage.completion_tokens <= 12
    assert answer.usage.prompt_tokens > 0


def test_streamed_pieces_are_the_whole_answer(client, server):
    whole = ask(client, server[1], temperature=0.0).choices[0].message.content
    pieces, reasons = [], []
    for chunk in ask(client, server[1], temperature=0.0, stream=True):
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            reasons.append(choice.finish_reason)
    # Random weights may end within a character: the server leaves such bytes out of a stream, and marks them otherwise.
    assert "".join(pieces).rstrip("\ufffd") == whole.rstrip("\ufffd") != ""
    assert sum(bool(piece) for piece in pieces) > 1
    assert reasons[-1] in {"stop", "length"}


def test_a_legacy_completion_has_text(client, server):
    answer = client.completions.create(model=server[1], prompt="Write one", max_tokens=8)
    assert answer.choices[0].text
    assert 1 <= answer.usage.completion_tokens <= 8
