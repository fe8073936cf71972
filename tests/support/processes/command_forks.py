"""Processes of the `wasp` command that need not import their libraries anew: forks of one that did.

Most of what a short command costs is the import of pandas, MLflow and the accountants (3 s of processor time). A
parent loads them once for all tests of a process and forks for each call. Prefect and our own packages are not loaded
there: they read their environment on import, and each call has its own.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.waits import wait_until

SETTLED = ("PYTHON", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "LD_", "HF_", "MLFLOW_DISABLE")
"""What is read when a process starts or a library is imported; a call that needs it otherwise is no fork."""
QUIET = {"MLFLOW_LOGGING_LEVEL": "WARNING", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
"""What the command sets before it imports MLflow."""
THREADED = ("polars",)
"""What nothing here needs, MLflow imports where it is installed, and starts threads, which a fork would lose."""
LIBRARIES = (
    "pandas",
    "pyarrow.parquet",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql",
    "yaml",
    "typer",
    "httpx",
    "jinja2",
    "matplotlib.pyplot",
    "scipy.stats",
    "sklearn.linear_model",
    "dp_accounting.pld",
    "opendp.prelude",
    "mlflow.pyfunc",
    "mlflow.artifacts",
    "mlflow.store.tracking.sqlalchemy_store",
)


def call(
    arguments: Sequence[str], environment: Mapping[str, str], timeout: float, folder: Path = ROOT
) -> "subprocess.CompletedProcess[str]":
    """Run `wasp ARGUMENTS` in a folder, in a process of its own; TimeoutExpired after `timeout` seconds."""
    if _settled(environment) != _settled(os.environ):
        command = [sys.executable, "-m", "flows.cli.main", *arguments]
        return subprocess.run(
            command, cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=timeout
        )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder)}
        request = json.dumps(asked).encode()
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(_parent())
            socket.send_fds(line, [len(request).to_bytes(8, "big")], [out.fileno(), err.fileno()])
            line.sendall(request)
            answers = line.makefile("r")
            code = _wait(line, int(answers.readline()), answers, timeout)
        return subprocess.CompletedProcess(list(arguments), code, _text(out), _text(err))


def _wait(line: socket.socket, pid: int, answers: "object", timeout: float) -> int:
    line.settimeout(timeout)
    try:
        return int(answers.readline())  # type: ignore[attr-defined]
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired("wasp", timeout) from None


def _text(file: "object") -> str:
    file.seek(0)  # type: ignore[attr-defined]
    return file.read().decode()  # type: ignore[attr-defined, no-any-return]


def _settled(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(SETTLED)}


@cache
def _parent() -> str:
    """Start the process that forks; return the address that it listens on. It ends with this process."""
    folder = tempfile.mkdtemp(prefix="wasp-forks-")
    address = str(Path(folder) / "line")
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.command_forks", address, str(os.getpid())], cwd=ROOT
    )
    wait_until(Path(address).exists, parent, lambda: "its error stands among the test's output", seconds=120)
    return address


def _serve(address: str, owner: int) -> list[str]:
    """Fork for each call; in a fork, return the arguments of its command."""
    os.environ.update(QUIET)
    sys.modules.update(dict.fromkeys(THREADED))  # type: ignore[arg-type]  # None: it is as if not installed
    for library in LIBRARIES:
        __import__(library)
    for library in THREADED:
        del sys.modules[library]
    _warm_up()
    _require_one_thread()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen(16)
    Path(address + ".new").rename(address)
    listener.settimeout(2)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while os.getppid() == owner:
        try:
            line, _ = listener.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            line.settimeout(None)
            return _take(line)
        line.close()
    remove_own_files(Path(address))
    raise SystemExit(0)


def remove_own_files(address: Path) -> None:
    """Remove a parent's address, and its folder if nothing else is in it."""
    address.unlink(missing_ok=True)
    with suppress(OSError):  # somebody else's files are in it
        address.parent.rmdir()


def _warm_up() -> None:
    """Do what libraries do once in a process and keep: MLflow lists all packages, matplotlib finds its fonts."""
    import matplotlib.pyplot as plt
    from mlflow.utils import requirements_utils

    requirements_utils._init_modules_to_packages_map()
    figure, axes = plt.subplots()
    axes.set_title("warm")
    figure.savefig(os.devnull, format="svg")
    plt.close(figure)


def _require_one_thread() -> None:
    """Raise where a fork would lose a thread; the allocator of pyarrow starts its own anew."""
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text().strip() for task in tasks.iterdir()] if tasks.is_dir() else []
    others = [name for name in names if name != "jemalloc_bg_thd"]
    if len(others) > 1:
        raise RuntimeError(f"threads run after the imports, which a fork would lose: {others}")


def _take(line: socket.socket) -> list[str]:
    """Be the one that waits for a command, or the command."""
    head, files, _, _ = socket.recv_fds(line, 8, 2)
    size = int.from_bytes(head, "big")
    request = json.loads(line.makefile("rb").read(size))
    command = os.fork()
    if command:
        line.sendall(f"{command}\n".encode())
        _, status = os.waitpid(command, 0)
        with suppress(BrokenPipeError):  # whoever called may have waited long enough
            line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    line.close()
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    time.tzset()
    return list(request["arguments"])


if __name__ == "__main__":
    sys.argv = ["wasp", *_serve(sys.argv[1], int(sys.argv[2]))]
    from flows.cli.main import main

    main()
