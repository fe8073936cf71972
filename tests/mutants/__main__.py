"""Run the tests against each mutation of `catalogue.yaml`: `python -m tests.mutants [WORD ...]`.

A mutation replaces text of one module when it is imported; no file changes. Exit code 1 if tests do not notice a
mutation, if its text no longer occurs exactly once, if a test no longer exists, or if the tests fail without mutations.

Libraries are imported once; each run of tests is a forked process that imports the project, with its mutation.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.mutants.plugin import Mutant, install, read_catalogue
from tests.support.paths import ROOT

AT_ONCE: Final = 2
TIMEOUT_SECONDS: Final = 300
FAILED, PASSED = 1, 0
"""Exit codes of pytest; all others mean that it did not run the tests."""

LIBRARIES: Final = (
    "pytest hypothesis numpy pandas pyarrow.parquet sqlalchemy yaml pydantic scipy.stats sklearn.linear_model torch "
    "opacus dp_accounting.pld.privacy_loss_distribution opendp.prelude typer httpx jinja2"
)
"""Imports that take seconds and do not read the environment of a test."""

Job = tuple[Mutant | None, Sequence[str]]
"""A mutation, or none, and the tests to run."""


def main(words: Sequence[str]) -> int:
    """Run all mutations whose names contain a word, print one line each, and return the exit code."""
    started, mutants = time.monotonic(), read_catalogue()
    outdated = [
        f"OUTDATED  {mutant.name}: {problem}" for mutant in mutants if (problem := mutant.problem())
    ]
    print("\n".join(outdated), end="\n" if outdated else "", flush=True)
    chosen = [
        mutant for mutant in mutants if not words or any(word in mutant.name for word in words)
    ]
    os.environ["OMP_NUM_THREADS"] = "1"
    for library in LIBRARIES.split():
        import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        unmutated: list[Job] = [(None, tests) for tests in sound_tests(chosen)]
        failures = [line for _, code, line in run_all(unmutated, Path(folder)) if code != PASSED]
        if failures:
            print("The tests fail without a mutation: " + "; ".join(failures))
            return 1
        print(
            f"{len(chosen)} mutations; all tests pass without one ({time.monotonic() - started:.0f} s)",
            flush=True,
        )
        jobs: list[Job] = [(mutant, mutant.tests) for mutant in chosen if not mutant.problem()]
        caught = 0
        for mutant, code, line in run_all(jobs, Path(folder)):
            verdict = {FAILED: "caught", PASSED: "SURVIVED"}.get(code, f"BROKEN {code}")
            print(f"{verdict:9} {mutant.name if mutant else ''}  [{line}]", flush=True)
            caught += code == FAILED
    print(f"{caught} of {len(chosen)} caught in {time.monotonic() - started:.0f} s")
    return 0 if caught == len(chosen) and not outdated else 1


def sound_tests(mutants: Sequence[Mutant]) -> list[list[str]]:
    """Return the tests of mutations, by file; they must pass without a mutation."""
    files: dict[str, set[str]] = {}
    for test in (test for mutant in mutants for test in mutant.tests):
        files.setdefault(test.split("::")[0], set()).add(test)
    return [[file] if file in tests else sorted(tests) for file, tests in files.items()]


def run_all(jobs: Sequence[Job], folder: Path) -> Iterator[tuple[Mutant | None, int, str]]:
    """Run jobs, `AT_ONCE` at a time; yield mutation, exit code of pytest and first failure, or last line, of each."""
    waiting: list[Job] = list(jobs)
    running: dict[int, tuple[Mutant | None, Path]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            mutant, tests = waiting.pop(0)
            own = Path(tempfile.mkdtemp(dir=folder))
            running[
                _fork(lambda mutant=mutant, tests=tests, own=own: _run_tests(mutant, tests, own))
            ] = mutant, own
        process, status = os.wait()
        mutant, own = running.pop(process)
        output = (own / "log.txt").read_text(encoding="utf-8", errors="replace")
        failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        yield (
            mutant,
            os.waitstatus_to_exitcode(status),
            (failures or output.strip().splitlines()[-1:] or [""])[0],
        )


def _fork(work: Callable[[], int]) -> int:
    """Return the process that does the work and ends with its result."""
    process = os.fork()
    if process:
        return process
    try:
        os._exit(work())
    finally:
        os._exit(3)  # pytest's code of an internal error


def _run_tests(mutant: Mutant | None, tests: Sequence[str], folder: Path) -> int:
    """Run tests with a mutation, or with none; write their output to log.txt and return the exit code."""
    import pytest

    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    os.chdir(ROOT)
    if mutant is not None:
        install(mutant)
    options = [
        "-p",
        "no:cacheprovider",
        "-x",
        "-rfE",
        "--hypothesis-seed=0",
        f"--timeout={TIMEOUT_SECONDS}",
    ]
    options += ["-m", "not slow and not gpu and not browser", f"--basetemp={folder}/tests"]
    code = int(pytest.main([*options, *tests]))
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
