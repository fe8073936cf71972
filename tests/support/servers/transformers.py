"""Runs the real server of transformers (`transformers serve`) for a folder with a model."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.ports import free_port
from tests.support.waits import responds, wait_until

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def transformers_server(model: Path, home: Path) -> Iterator[str]:
    """Serve `model` with its caches and log in `home`; the value is the base URL for clients of OpenAI.

    The model's id is its folder; the list of models names it tiny/<name of the folder>.
    """
    # Without its folder of cached models the server answers 500 to a question for them.
    cached = home / "hub" / f"models--tiny--{model.name}"
    shutil.copytree(model, cached / "snapshots" / COMMIT)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(COMMIT)
    port, log = free_port(), home / "server.log"
    program = str(Path(sys.executable).with_name("transformers"))
    command = [program, "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, cwd=home, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: responds(f"http://127.0.0.1:{port}/health"), process, log.read_text)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)
