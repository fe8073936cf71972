"""The real server of transformers with a tiny chat model, driven through the real client of OpenAI."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiny_models import tiny_models as tiny_models

pytest.importorskip("torch")
openai = pytest.importorskip("openai")
pytest.importorskip("uvicorn")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATIENCE = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(tiny_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Base URL and model id of a running server."""
    home = tmp_path_factory.mktemp("serve")
    # Without its folder of cached models the server answers 500 to a question for them.
    snapshot = home / "hub" / "models--tiny--llama" / "snapshots" / COMMIT
    shutil.copytree(tiny_models["llama"], snapshot)
    (home / "hub/models--tiny--llama/refs").mkdir()
    (home / "hub/models--tiny--llama/refs/main").write_text(COMMIT)
    port, log = free_port(), home / "server.log"
    program = str(Path(sys.executable).with_name("transformers"))
    command = [program, "serve", str(tiny_models["llama"]), "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--device", "cpu"], env=environment, cwd=home, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(port, process, log)
        yield f"http://127.0.0.1:{port}/v1", str(tiny_models["llama"])
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(port: int, process: subprocess.Popen, log: Path) -> None:
    import urllib.request

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"the server did not come up: {log.read_text()[-2000:]}")


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
