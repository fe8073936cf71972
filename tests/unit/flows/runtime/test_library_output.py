"""Nothing that a library writes reaches the terminal of a command; its own lines and errors do."""

import os
import subprocess
import sys
import warnings

import pytest
import typer
from tqdm import tqdm

from flows.cli.common import Output, command
from flows.runtime.library_output import CONSOLE_LEVEL, hidden_library_output, terminal
from flows.runtime.terminal_progress import show
from tests.support.paths import ROOT


def make_noise() -> None:
    """Write as libraries do."""
    for _ in tqdm(range(2), desc="Converting and de-quantizing"):
        pass
    # Python shows a warning so; pytest would collect it.
    sys.stderr.write(
        warnings.formatwarning("is_gradient_checkpointing", FutureWarning, __file__, 1)
    )
    sys.stderr.write("--- Error logging to API ---\n")


@pytest.fixture(autouse=True)
def hides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONSOLE_LEVEL, raising=False)


def test_only_own_lines_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with hidden_library_output(), show() as display:
        make_noise()
        display.say("iteration 1")
    assert capsys.readouterr().err == "iteration 1\n"


def test_a_verbose_command_shows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONSOLE_LEVEL, "INFO")
    with hidden_library_output():
        make_noise()
    shown = capsys.readouterr().err
    assert "is_gradient_checkpointing" in shown
    assert "Converting" in shown


def test_every_command_hides_it_and_prints_its_problems(capsys: pytest.CaptureFixture[str]) -> None:
    group = typer.Typer()

    def noisy() -> Output:
        make_noise()
        return Output({}, lambda _: "result", problems=["a problem"])

    command(group)(noisy)
    group([], standalone_mode=False)
    captured = capsys.readouterr()
    assert captured.out == "result\n"
    assert captured.err == "wasp: a problem\n"


def test_an_unexpected_error_keeps_its_traceback_and_standard_error_returns() -> None:
    def fail() -> None:
        with hidden_library_output():
            assert terminal() is before
            assert sys.stderr is not before
            raise ZeroDivisionError

    before = sys.stderr
    with pytest.raises(ZeroDivisionError):
        fail()
    assert sys.stderr is before


def test_what_threads_of_libraries_write_at_the_end_is_hidden() -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print('late noise', file=sys.stderr))\n"
        "from flows.runtime.library_output import hide_at_exit; hide_at_exit(); 1 / 0"
    )
    stored = {name: value for name, value in os.environ.items() if name != CONSOLE_LEVEL}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=stored, capture_output=True, text=True
    )
    assert "ZeroDivisionError" in done.stderr
    assert "late noise" not in done.stderr
