"""Fixed costs of a command: before its first output, for a refusal, and for a run that is finished."""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, in_turns, line
from tests.support.environment import without_settings
from tests.support.paths import ROOT
from tests.support.runs.pipeline import values, written

ROUNDS = 5
REFUSED = {"method": {"guidance": "auto"}}
"""A change that `wasp plan` refuses: the guidance needs the declared number of rows."""


def startup(tiny: bool) -> list[Line]:
    """`wasp --help` against an interpreter that does nothing, each a process of its own."""

    def start(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)

    arms = {
        "": lambda: start("-m", "flows.cli.main", "--help"),
        "bare": lambda: start("-c", "import argparse"),
    }
    taken = in_turns(arms, 1 if tiny else 7)
    return [
        toward(line("startup", "wasp --help", "bare interpreter", taken[""], taken["bare"]), "P15")
    ]


def fixed(tiny: bool) -> list[Line]:
    """A refused run and a finished run that is started again, in processor seconds of `wasp plan`."""
    rounds = 1 if tiny else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = written(folder / "small.yaml", values())
        refused = written(folder / "refused.yaml", values(**REFUSED))
        _wasp(folder, 0, "run", "wasp", "--config", str(small))
        lines = []
        for case, code, config, goal in (
            ("refused configuration", 2, refused, "refused"),
            ("finished run again", 0, small, "again"),
        ):
            arms = {
                command: lambda command=command, code=code, config=config: _wasp(
                    folder, code, command, "wasp", "--config", str(config)
                )
                for command in ("run", "plan")
            }
            taken = in_turns(arms, rounds, children_seconds)
            shown = line("fixed", case, "wasp plan", taken["run"], taken["plan"])
            lines.append(toward(shown, goal))
    return lines


def demo(tiny: bool) -> list[Line]:
    """`wasp run demo` in a new state folder, in processor seconds of `wasp plan demo`; not run with --tiny."""
    if tiny:
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arms = {
            command: lambda command=command: _wasp(folder, 0, command, "demo")
            for command in ("run", "plan")
        }
        # The first run of an arm is not measured, and would leave a finished run.
        started = children_seconds()
        arms["run"]()
        run = children_seconds() - started
        plan = in_turns({"plan": arms["plan"]}, 1, children_seconds)["plan"]
    note = f"{run:.1f} processor seconds, server included"
    return [line("demo", "wasp run demo", "wasp plan demo", [run], plan, note)]


def children_seconds() -> float:
    """Return the processor seconds of all ended child processes and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wasp(folder: Path, code: int, *arguments: str) -> None:
    """Run the command in a state folder, without a configured server; it must end with `code`."""
    environment = without_settings() | {"WASP_HOME": str(folder / "home"), "HOME": str(folder)}
    command = [sys.executable, "-m", "flows.cli.main", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr[-2000:]
