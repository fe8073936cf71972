"""Freed memory is returned to the system, as a separate process shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.interfaces.memory import ARROW_POOL, settle_memory
from tests.support.environment import without_settings
from tests.support.paths import ROOT

HOLES = """
from connectors.interfaces.memory import return_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
blocks = [bytearray(1000) for _ in range(100_000)]
in_use = blocks[::100]
del blocks
before = resident()
return_memory()
print(before - resident())
"""
"""Prints the bytes that go back when 99 of 100 small blocks were freed."""
POOL = "import connectors, pyarrow; print(pyarrow.default_memory_pool().backend_name)"


def printed(code: str) -> str:
    environment = {name: value for name, value in without_settings().items() if name != ARROW_POOL}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists() or "CS_GNU_LIBC_VERSION" not in os.confstr_names,
    reason="only glibc retains heaps and can return them",
)
def test_pages_between_blocks_in_use_go_back() -> None:
    assert int(printed(HOLES)) > 50 * 1024**2


def test_pyarrow_has_the_pool_of_the_system_unless_the_user_chose_one() -> None:
    assert printed(POOL) == "system"
    stated = {ARROW_POOL: "mimalloc"}
    settle_memory(stated)
    assert stated == {ARROW_POOL: "mimalloc"}
