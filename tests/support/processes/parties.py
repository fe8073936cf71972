"""Parties as processes of their own, forked from one that has everything imported: light, and quick to start.

As a program: `python -m tests.support.processes.parties PARTY.yaml ...`; it ends its parties when it is ended.
"""

import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from connectors.interfaces.embedding import Embedder
from tests.support.paths import ROOT
from tests.support.runs.served_flow import Refused, ask

LIBRARIES = (
    "opendp.prelude",
    "dp_accounting.pld",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.feature_extraction.text",
    "sklearn.preprocessing",
    "sqlalchemy.dialects.sqlite",
    "fsspec.implementations.local",
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "cryptography.hazmat.primitives.ciphers.modes",
    "flows.federation.worker",
)
"""What a party imports sooner or later: here once for all."""
APART_SECONDS = 0.3
MANY, MANY_APART_SECONDS = 20, 1.0
"""Between two parties: a server that many make themselves known to at once answers nobody in time."""
PAGE = 200
"""Most deployments that the server tells at once."""


def main(files: Sequence[str]) -> None:
    """Fork a party for each file; print its process."""
    from flows.runtime.state_folder import prepare_environment

    prepare_environment()
    for library in LIBRARIES:
        import_module(library)
    from prefect.plugins import load_prefect_collections

    load_prefect_collections()  # as every worker does when it starts
    embedder = _embedder(Path(files[0]))
    gc.freeze()  # what is there is not looked through again, so that its memory stays shared
    children: list[int] = []

    def end(number: int, _: object) -> None:
        for child in children:
            os.kill(child, number)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    for file in files:
        child = os.fork()
        if not child:
            _serve(Path(file), embedder)
        children.append(child)
        time.sleep(APART_SECONDS if len(files) < MANY else MANY_APART_SECONDS)
        sys.stdout.write(f"{Path(file).parent.name} {child}\n")
        sys.stdout.flush()
    for child in children:
        os.waitpid(child, 0)
    time.sleep(3600)


def _embedder(file: Path) -> Embedder:
    """Load the embedder of a party, so that all have its weights in common: they must name the same one."""
    from flows.federation.party import load_party

    found = load_party(file).embedder
    found.embed_alone(["weights are read at the first text"])
    return found


def _serve(file: Path, embedder: Embedder) -> None:
    from flows.federation.party import load_party
    from flows.federation.worker import serve_party

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        party = load_party(file)
        vars(party)["embedder"] = embedder
        serve_party(party)
    except BaseException:  # whatever ended it stands in the log, and no fork goes on with its parent's work
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


@contextmanager
def party_processes(files: Sequence[Path], environment: dict[str, str], log: Path) -> Iterator[dict[str, int]]:
    """Run parties until the block ends; the value: process by party."""
    command = [sys.executable, "-m", "tests.support.processes.parties", *map(str, files)]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        found = dict(line.split() for line in (process.stdout.readline() for _ in files))
        yield {party: int(pid) for party, pid in found.items()}
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for_parties(api: str, names: Sequence[str], seconds: float = 300) -> None:
    """Wait until every party, 200 at most, has its deployment on the server, so that a coordinator can call it."""
    deadline = time.monotonic() + seconds
    missing = set(names)
    while missing:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(missing)} parties did not register: {sorted(missing)[:3]}")
        with suppress(TimeoutError, Refused):  # it has more to do than it can
            found = ask(api, "/deployments/filter", {"limit": PAGE, "offset": 0})
            missing -= {one["name"] for one in found}
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1:])
