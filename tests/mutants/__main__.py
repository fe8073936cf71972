"""Run the tests against each mutation of `catalogue.yaml`: `python -m tests.mutants [WORD ...]`.

A mutation replaces text of one module when it is imported; no file changes. Exit code 1 if tests do not notice a
mutation, if its text no longer occurs exactly once, if a test no longer exists, or if the tests fail without mutations.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.mutants.plugin import Mutant, read_catalogue
from tests.support.paths import ROOT

AT_ONCE: Final = 2
TIMEOUT_SECONDS: Final = 300
FAILED, PASSED = 1, 0
"""Exit codes of pytest; all others mean that it did not run the tests."""


def main(words: Sequence[str]) -> int:
    """Run all mutations whose names contain a word, print one line each, and return the exit code."""
    started, mutants = time.monotonic(), read_catalogue()
    outdated = [f"OUTDATED  {mutant.name}: {problem}" for mutant in mutants if (problem := mutant.problem())]
    print("\n".join(outdated), end="\n" if outdated else "", flush=True)
    chosen = [mutant for mutant in mutants if not words or any(word in mutant.name for word in words)]
    files = sound_tests(chosen)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        unmutated = list(pool.map(lambda tests: run_tests("", tests, Path(folder)), files))
        failures = [line for code, line in unmutated if code != PASSED]
        if failures:
            print("The tests fail without a mutation: " + "; ".join(failures))
            return 1
        print(f"{len(chosen)} mutations; all tests pass without one ({time.monotonic() - started:.0f} s)", flush=True)
        sound = [mutant for mutant in chosen if not mutant.problem()]
        caught = sum(pool.map(lambda mutant: _report(mutant, Path(folder)), sound))
    print(f"{caught} of {len(chosen)} caught in {time.monotonic() - started:.0f} s")
    return 0 if caught == len(chosen) and not outdated else 1


def sound_tests(mutants: Sequence[Mutant]) -> list[list[str]]:
    """Return the tests of mutations, by file; they must pass without a mutation."""
    files: dict[str, set[str]] = {}
    for test in (test for mutant in mutants for test in mutant.tests):
        files.setdefault(test.split("::")[0], set()).add(test)
    return [[file] if file in tests else sorted(tests) for file, tests in files.items()]


def _report(mutant: Mutant, folder: Path) -> bool:
    started = time.monotonic()
    code, line = run_tests(mutant.name, mutant.tests, folder)
    verdict = {FAILED: "caught", PASSED: "SURVIVED"}.get(code, f"BROKEN {code}")
    print(f"{verdict:9} {mutant.name}  [{line}] {time.monotonic() - started:.0f} s", flush=True)
    return code == FAILED


def run_tests(name: str, tests: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run tests with a mutation (empty for none); return pytest's exit code and the first failure or its last line."""
    environment = os.environ | {"MUTANT": name, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "-x", "-rfE"]
    command += ["--hypothesis-seed=0", "-m", "not slow and not gpu and not browser", f"--timeout={TIMEOUT_SECONDS}"]
    command += [f"--basetemp={tempfile.mkdtemp(dir=folder)}/tests", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, (failures or lines[-1:] or [""])[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
