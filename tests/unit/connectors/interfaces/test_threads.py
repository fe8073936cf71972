"""Threads sleep while they wait, and a computation takes as many as there are cores."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from connectors.embedders.registry import open_embedder
from connectors.interfaces import threads
from connectors.interfaces.threads import (
    BLAS,
    SLEEPING,
    WAITING,
    compute,
    cpu_quota,
    settle_environment,
    usable_cores,
)
from tests.support.paths import ROOT

ENTRIES = {
    "command": "import sys\nsys.argv = ['wasp', '--help']\nfrom flows.cli.main import main\n"
    "try: main()\nexcept SystemExit: pass",
    "flow run of a worker": "from prefect.flows import load_flow_from_entrypoint\n"
    "load_flow_from_entrypoint('flows.methods.wasp.flow.wasp')",
    "step on a cluster": "import tasks.prefect.writing",
}
TEXTS = [
    f"card number {number} has not arrived, and nobody says why" * (number % 5 + 1)
    for number in range(60)
]


NUMPY_IS_LOADED = """
import os, sys
class Look:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print("OpenBLAS reads", os.environ.get("OPENBLAS_THREAD_TIMEOUT"), file=sys.stderr)
sys.meta_path.insert(0, Look())
"""


def spins(entry: str) -> tuple[set[str], list[str]]:
    """Return how often waiting threads of OpenMP look for work, and 2^n ticks of those of OpenBLAS.

    The OpenMP runtimes report it themselves; OpenBLAS reads its variable when numpy is imported.
    """
    environment = {
        name: value for name, value in os.environ.items() if name not in (*WAITING, *BLAS)
    }
    environment["OMP_DISPLAY_ENV"] = "VERBOSE"
    command = [
        sys.executable,
        "-c",
        f"{NUMPY_IS_LOADED}{entry}\nimport torch, sklearn.linear_model",
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    loops = set(re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr))
    return loops, re.findall(r"OpenBLAS reads (\w+)", done.stderr)


@pytest.mark.skipif(
    sys.platform != "linux",
    reason="libgomp reports its settings; other systems have other runtimes",
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_waiting_threads_sleep_however_a_run_is_started(entry: str) -> None:
    assert spins(ENTRIES[entry]) == ({"0"}, ["4"])


@pytest.mark.parametrize("name", WAITING)
def test_one_variable_of_the_user_leaves_all_alone(name: str) -> None:
    environment = {name: "its value"}
    settle_environment(environment)
    assert {key: value for key, value in environment.items() if key in WAITING} == {
        name: "its value"
    }


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_a_container_is_read(
    files: dict[str, str], cores: int | None, tmp_path: Path
) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == cores


def test_libraries_get_no_more_threads_than_the_limit_pays_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_allowed_cores", lambda: 64)
    monkeypatch.setattr(threads, "cpu_quota", lambda: 2)
    fresh, stated = dict[str, str](), {"OMP_NUM_THREADS": "5"}
    settle_environment(fresh)
    settle_environment(stated)
    assert (fresh["OMP_NUM_THREADS"], stated["OMP_NUM_THREADS"]) == ("2", "5")
    assert SLEEPING.items() <= fresh.items()
    for text, number in (("3", 3), ("3,2", 3), ("all", 2), ("", 2)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert usable_cores() == number


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let two threads compute, and torch take two for each operation of a thread that may."""
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_vectors_have_the_same_bits_with_every_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, vectors = torch.get_num_threads(), []
    embedder = open_embedder("sentence_transformers", "embedded", {"device": "cpu"})
    for number in (1, 2, 3):
        monkeypatch.setenv("OMP_NUM_THREADS", str(number))
        torch.set_num_threads(number)
        vectors.append(
            np.concatenate([embedder.embed(TEXTS), embedder.embed_alone(TEXTS[:9])]).tobytes()
        )
    torch.set_num_threads(before)
    assert len(set(vectors)) == 1


@pytest.mark.usefixtures("two_cores")
def test_operations_of_the_pool_take_one_core_and_those_of_others_keep_theirs() -> None:
    both = threading.Barrier(
        usable_cores()
    )  # a thread that is still starting sets the number for all for a moment

    def number_inside(_: int) -> int:
        both.wait(60)
        return torch.get_num_threads()

    inside = {number for _, number in compute(number_inside, range(8))}
    outside: list[int] = []
    later = threading.Thread(target=lambda: outside.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert inside == {1}
    assert [torch.get_num_threads(), *outside] == [2, 2]


@pytest.mark.usefixtures("two_cores")
def test_every_item_comes_back_with_its_result() -> None:
    assert sorted(compute(lambda number: number**2, range(30))) == [
        (number, number**2) for number in range(30)
    ]


@pytest.mark.usefixtures("two_cores")
def test_after_an_error_nothing_new_begins_and_what_began_has_ended() -> None:
    begun, ended = [], []

    def work(number: int) -> None:
        begun.append(number)
        if number == 3:
            raise ValueError("piece 3")
        time.sleep(0.01)
        ended.append(number)

    with pytest.raises(ValueError, match="piece 3"):
        list(compute(work, range(1000)))
    assert len(begun) < 100
    assert sorted([*ended, 3]) == sorted(begun)


@pytest.mark.parametrize(
    ("flags", "limit", "expected"),
    [
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": True}, "", True),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": True}, "avx512_core_amx", True),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": True}, "AVX512_CORE_BF16", False),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": False}, "", False),
        ({"cpu_name": "AMD EPYC 9654", "avx512_bf16": True, "amx_bf16": False}, "", True),
        ({"cpu_name": "AMD EPYC 7763", "avx512_bf16": False, "amx_bf16": False}, "", False),
        ({"architecture": "aarch64"}, "", False),
    ],
)  # fmt: skip
def test_bfloat16_is_chosen_where_it_is_faster_than_float32(flags, limit, expected, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert threads.computes_bfloat16() is expected
