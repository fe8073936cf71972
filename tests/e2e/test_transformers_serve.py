"""The connector `openai` against a real server of another project: `transformers serve`."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.openai import OpenAIModel
from tests.support.models.tiny import save_llama
from tests.support.servers.ports import free_port
from tests.support.waits import serving

for package in ("torch", "openai", "uvicorn"):
    pytest.importorskip(package)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Serve a model by its folder, with caches and log in one of its own; the value is the folder and the URL."""
    model, home, port = save_llama(tmp_path / "clerk"), tmp_path / "serve", free_port()
    # Without its folder of cached models the server answers 500 to a question for them.
    cached = home / "hub" / f"models--tiny--{model.name}"
    shutil.copytree(model, cached / "snapshots" / COMMIT)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(COMMIT)
    program = str(Path(sys.executable).with_name("transformers"))
    command = [
        program,
        "serve",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    with serving(command, f"http://127.0.0.1:{port}/health", home / "server.log", environment):
        yield model, f"http://127.0.0.1:{port}/v1"


def test_a_served_model_answers_every_prompt_and_its_tokens_are_counted(
    served: tuple[Path, str],
) -> None:
    model, url = served
    spec = ModelSpec(
        "clerk", "openai", str(model), {"endpoint": url, "key": "none", "concurrency": 4}
    )
    prompts = [
        Prompt(f"Write text number {number}.", "a", seed=number, max_tokens=12)
        for number in range(8)
    ]
    answers = OpenAIModel.from_spec(spec).complete(prompts)
    assert {answer.finish_reason for answer in answers} <= {"stop", "length"}
    assert len({answer.text for answer in answers}) > 1
    assert all(answer.tokens_in > 0 and 0 < answer.tokens_out <= 12 for answer in answers)
