"""Parties as processes of their own, forked from one that has everything imported: light, and quick to start.

As a program: `python -m tests.party_processes PARTY.yaml ...`; it ends its parties when it is ended.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.pipeline import ROOT


def main(files: Sequence[str]) -> None:
    """Fork a party for each file; print its process."""
    import opendp.prelude  # noqa: F401  (so that all share it)

    import flows.party_worker  # noqa: F401
    from connectors.embedders import open_embedder
    from flows.home import prepare_environment

    prepare_environment()
    open_embedder("hashing")
    children = []
    for file in files:
        child = os.fork()
        if not child:
            _serve(Path(file))
        children.append(child)
        sys.stdout.write(f"{Path(file).parent.name} {child}\n")
        sys.stdout.flush()

    def end(number: int, _: object) -> None:
        for child in children:
            os.kill(child, number)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    for child in children:
        os.waitpid(child, 0)
    time.sleep(3600)


def _serve(file: Path) -> None:
    from flows.party import load_party
    from flows.party_worker import serve_party

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        serve_party(load_party(file))
    finally:
        os._exit(1)


@contextmanager
def party_processes(files: Sequence[Path], environment: dict[str, str], log: Path) -> Iterator[dict[str, int]]:
    """Run parties until the block ends; the value: process by party."""
    command = [sys.executable, "-m", "tests.party_processes", *map(str, files)]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        found = dict(line.split() for line in (process.stdout.readline() for _ in files))
        yield {party: int(pid) for party, pid in found.items()}
    finally:
        process.terminate()
        process.wait(timeout=30)


if __name__ == "__main__":
    main(sys.argv[1:])
