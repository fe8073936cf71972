"""The processor: thread settings for computations, a thread pool of single cores, and its precision.

By default an idle thread of OpenMP (torch, scikit-learn) or OpenBLAS (numpy, scipy) spins for milliseconds. On a busy
machine the spinning thread blocks the core that the working thread needs. Four threads on four busy cores embedded a
fifth as many texts as one thread, and used twelve times its processor time. `settle_environment` therefore makes idle
threads sleep.

`compute` gives each item of work one core. Items do not wait for each other: if another program takes a core, only one
item is delayed. Results do not depend on the number of threads. Several processes on a machine share the cores through
the system's scheduler, which treats all single-core threads alike.
"""

import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

SLEEPING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Variables that make idle threads sleep: the OpenMP standard's, and the one of the Intel and LLVM runtimes."""
WAITING = (*SLEEPING, "GOMP_SPINCOUNT", "KMP_LIBRARY")
"""Variables that control how threads wait. If the user has set one of them, none is changed."""
BLAS = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Makes idle OpenBLAS threads sleep: they spin for 2^n clock ticks; n is 26 or 28 by default, at least 4."""
QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Hides the progress bars and hints with which the libraries load a model."""
NUMBER = "OMP_NUM_THREADS"
CGROUP: Final = Path("/sys/fs/cgroup")


def settle_environment(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make idle library threads sleep, limit their number to the CPU quota, and hide progress bars of libraries.

    Call it before torch, numpy and scikit-learn are imported: they read these variables once. Child processes inherit
    them. Variables that the user has set are not changed.
    """
    if not any(name in environment for name in WAITING):
        environment.update(SLEEPING)
    for name, value in (BLAS | QUIET).items():
        environment.setdefault(name, value)
    quota = cpu_quota()
    if quota is not None and quota < _allowed_cores():
        environment.setdefault(NUMBER, str(quota))


def usable_cores() -> int:
    """Return the number of compute threads: OMP_NUM_THREADS, else the usable cores."""
    setting = os.environ.get(NUMBER, "").split(",")[0].strip()
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    return min(_allowed_cores(), cpu_quota() or _allowed_cores())


def supports_bfloat16() -> bool:
    """Return True if the processor has instructions for bfloat16 products."""
    import torch

    processor = torch.cpu.get_capabilities()
    return bool(processor.get("avx512_bf16") or processor.get("amx_bf16"))


def computes_bfloat16() -> bool:
    """Return True if the processor computes bfloat16 products faster than those of float32.

    AMX does, five to eight times. The bfloat16 of AVX-512 alone does on AMD's processors; on Intel's it takes 1.2 to
    1.8 times as long. The flags decide, not a measurement, which could differ between two starts of one run.
    """
    import torch

    processor = torch.cpu.get_capabilities()
    if processor.get("amx_bf16") and _allows_amx():
        return True
    is_amd = "AMD" in str(processor.get("cpu_name", ""))
    return bool(processor.get("avx512_bf16")) and is_amd


def _allows_amx() -> bool:
    # The user's limit of oneDNN, which computes torch's products.
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    return limit in ("", "ALL", "DEFAULT") or "AMX" in limit


def cpu_quota(folder: Path = CGROUP) -> int | None:
    """Return the cores of the container's CPU limit, at least 1; None without a limit."""
    # Version 2 of control groups, then version 1. A limit of `max` in version 2 is no number: ValueError.
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            text = " ".join((folder / file).read_text(encoding="ascii") for file in files)
            quota, period = (int(part) for part in text.split())
            if quota <= 0:  # no limit, in the older of the two forms
                return None
            return max(1, quota // period)
    return None


def compute(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in order of completion, from `usable_cores` threads with one core each.

    After an error, work in progress finishes before the error is raised.
    """
    with ThreadPoolExecutor(usable_cores(), "compute", initializer=_take_one_core) as pool:
        running = {pool.submit(work, item): item for item in items}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


_STARTING: Final = Lock()


def _take_one_core() -> None:
    """Limit torch's operations in this thread to one core.

    Other threads are not affected. torch stores a thread count for each thread that has used it, and a default for
    threads that start later. The helper thread restores that default.
    """
    import torch

    # One thread at a time: between the two calls, the default is wrong for any other thread that starts.
    with _STARTING:
        number = torch.get_num_threads()
        torch.set_num_threads(1)
        other = Thread(target=torch.set_num_threads, args=(number,))
        other.start()
        other.join()


def _allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
