"""State folders that earlier versions wrote: two runs each, a stopped and a finished one.

`python -m tests.support.stored_states CHECKOUT NAME` makes one with a checkout of an earlier version, whose packages
are those of this environment. All rows are the made-up ones that ship. Paths in it begin with /srv/wasp, where it is
made.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.support.paths import ROOT

STATES = ROOT / "tests/golden/states"
VERSIONS = ("701dc80", "035aa862")
"""Commits of earlier versions of which a state folder is stored."""
MADE_IN = Path("/srv/wasp")

ROWS = """
task: support_desk
private: {path: "builtin:support_desk/private.parquet", name: support-desk-demo}
test: {path: "builtin:support_desk/test.parquet"}
embedder: {connector: hashing, model: ""}
privacy: {epsilon: 4.0, delta: 1.0e-5}
student: {kind: linear}
execution: {max_workers: 1, seed: 0}
"""
VOTES = f"""{ROWS}
plms:
  - {{name: terse, connector: recorded, model: "builtin:recordings/terse.parquet", options: {{OPTIONS}}}}
  - {{name: formal, connector: recorded, model: "builtin:recordings/formal.parquet", options: {{OPTIONS}}}}
method: {{guidance: votes, iterations: 3, samples: 72, votes: 4, examples: 4}}
"""
"""Two releases; the run is killed before the second. `OPTIONS`: those that make the models of both versions equal."""
TRAINING = f"{ROWS}method: {{training: {{declared_rows: 120, batch_rows: 60, steps: 10, learning_rate: 0.05}}}}\n"
"""One release; the run is finished."""

COMMAND = """
import os, signal, sys
from connectors.ledger.ledger import PrivacyLedger
dies_at, release_once, calls = int(sys.argv.pop(1)), PrivacyLedger.release_once, []
def counted(self, request, draw):
    calls.append(request)
    if len(calls) == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return release_once(self, request, draw)
PrivacyLedger.release_once = counted
from flows.cli.main import main
sys.exit(main())
"""
"""The command `wasp` of any version; its first argument is the number of the release at which it is killed, 0: none."""


def unpack(version: str, folder: Path) -> Path:
    """Return a copy of the state folder of a version, in `folder`."""
    with tarfile.open(STATES / f"{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    state = folder / "state"
    state.chmod(0o700)
    return state


def runs_of(state: Path) -> tuple[str, str]:
    """Return the ids of the stopped and of the finished run of a state folder."""
    names = [path.parent.name for path in state.glob("runs/*/manifest.json")]
    stopped, finished = (
        next(name for name in names if name.startswith(flow))
        for flow in ("wasp-", "dp_sgd_student-")
    )
    return stopped, finished


def votes_of_today() -> str:
    """Return the configuration of the stopped run as this version reads it."""
    return VOTES.replace("OPTIONS", "")


def make(checkout: Path, version: str) -> None:
    """Make the state folder of a checkout, and pack it without caches of Prefect and MLflow."""
    state = MADE_IN / "state"
    shutil.rmtree(state, ignore_errors=True)
    MADE_IN.mkdir(parents=True, exist_ok=True)
    options = (
        "follow_prompt: true"
        if "follow_prompt: bool" in _text(checkout / "connectors/models/base/recorded.py")
        else ""
    )
    own = {
        "WASP_HOME": str(state),
        "PYTHONPATH": f"{checkout}:{checkout / 'flows/api'}",
        "LOGNAME": "ada",
        "HOME": "/srv/wasp",
    }
    for flow, config, dies_at in (
        ("wasp", VOTES.replace("OPTIONS", options), "2"),
        ("dp_sgd_student", TRAINING, "0"),
    ):
        (MADE_IN / "run.yaml").write_text(config, encoding="utf-8")
        command = [sys.executable, "-c", COMMAND, dies_at, "run", flow, "--config", "run.yaml"]
        subprocess.run(command, env=os.environ | own, cwd=MADE_IN, check=False)
    for file in state.glob("runs/*/manifest.json"):
        values = json.loads(_text(file)) | {"machine": "example"}
        file.write_text(json.dumps(values, indent=2), encoding="utf-8")
    with tarfile.open(STATES / f"{version}.tar.xz", "w:xz") as archive:
        for name in ("runs", "models", "completions", "embeddings", "private", "ledger.db"):
            archive.add(state / name, f"state/{name}", filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out pictures, pages, locks and owners."""
    if entry.name.endswith((".html", ".png", ".lock", "-wal", "-shm")):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve(), sys.argv[2])
