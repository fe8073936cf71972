"""Messages of a failed run: step, cause, next move; and where a traceback goes that nobody foresaw."""

import errno
import pickle
import sqlite3
from pathlib import Path

import pytest

from connectors.interfaces import cancellation
from connectors.interfaces.errors import (
    ArtifactError,
    BudgetError,
    ConfigError,
    FinalError,
    WaspError,
    in_step,
    step_of,
)
from flows.runtime.failure import (
    ErrorContext,
    UnexpectedError,
    disk_is_full,
    explain_prefect_failure,
    explained_errors,
    kept_interruption,
)


def failing(error: Exception, context: ErrorContext) -> WaspError:
    with pytest.raises(WaspError) as caught, explained_errors(context):
        raise error
    return caught.value


def begun(folder: Path) -> ErrorContext:
    return ErrorContext(folder, has_started=True)


def test_before_a_run_begins_nothing_was_spent_and_the_error_stays_what_it_is() -> None:
    told_error = failing(ConfigError("method.samples: too few"), ErrorContext())
    assert type(told_error) is ConfigError
    assert str(told_error) == "method.samples: too few. Nothing was spent."
    budget = failing(BudgetError(4, 1, 3, "desk"), ErrorContext())
    assert isinstance(budget, BudgetError)
    assert budget.exit_code == 3
    unowned = BudgetError(4, 1, 3, "desk")
    unowned.default = True
    assert str(failing(unowned, ErrorContext())).count("No owner set this cap") == 1
    assert str(failing(ConfigError("Nothing was spent."), ErrorContext())) == "Nothing was spent."


def test_a_begun_run_says_its_step_and_how_to_go_on(tmp_path: Path) -> None:
    error = FinalError("no such key")
    in_step(error, "generate clerk t=2")
    in_step(error, "an outer one")
    words = str(failing(error, begun(tmp_path / "wasp-desk-1")))
    assert words.startswith(
        "Step 'generate clerk t=2' failed: no such key. Next: wasp resume wasp-desk-1, or Retry"
    )


def test_the_step_survives_another_process() -> None:
    error = FinalError("no such key")
    in_step(error, "embed clerk t=0")
    assert step_of(pickle.loads(pickle.dumps(error))) == "embed clerk t=0"
    assert step_of(FinalError("elsewhere")) == ""


def test_what_nobody_foresaw_is_named_and_its_traceback_kept(tmp_path: Path) -> None:
    error = failing(KeyError("fid"), begun(tmp_path))
    assert isinstance(error, UnexpectedError)
    assert "KeyError: 'fid'" in str(error)
    assert str(tmp_path / "failure.txt") in str(error)
    assert "Traceback" in (tmp_path / "failure.txt").read_text()


def test_a_full_disk_is_reported_wherever_it_is_noticed(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    deep = RuntimeError("cannot write")
    deep.__cause__ = full
    assert disk_is_full(deep)
    assert disk_is_full(sqlite3.OperationalError("database or disk is full"))
    assert not disk_is_full(OSError(errno.EACCES, "Permission denied"))
    assert "The disk is full. Free space" in str(failing(deep, begun(tmp_path)))
    with pytest.raises(ArtifactError, match="Prefect failed"), explain_prefect_failure(tmp_path):
        raise deep
    with pytest.raises(RuntimeError), explain_prefect_failure(tmp_path):
        raise RuntimeError("something else")


def test_a_stop_on_purpose_passes_as_it_is() -> None:
    with pytest.raises(KeyboardInterrupt), explained_errors(ErrorContext()):
        raise KeyboardInterrupt
    with pytest.raises(cancellation.ProcessEnds):
        cancellation.raise_if_stopped()
    with explained_errors(ErrorContext()):  # what begins afterwards, in a notebook, is not ended
        cancellation.raise_if_stopped()


def test_an_interruption_stays_one_when_its_handling_fails() -> None:
    def create_task_run() -> None:
        try:
            raise KeyboardInterrupt
        except BaseException:
            # What Prefect's engine does if the task run does not exist yet.
            raise ValueError("Task run is not set")  # noqa: B904

    with pytest.raises(KeyboardInterrupt), explained_errors(ErrorContext()):
        create_task_run()
    with pytest.raises(KeyboardInterrupt), kept_interruption():
        create_task_run()
    with pytest.raises(UnexpectedError, match="unrelated"), explained_errors(ErrorContext()):
        raise ValueError("unrelated")


def test_a_machine_too_busy_for_prefects_server_is_named(tmp_path: Path) -> None:
    slow = RuntimeError("Timed out while attempting to connect to ephemeral Prefect API server.")
    with (
        pytest.raises(WaspError, match="the machine is busy. Nothing was spent"),
        explain_prefect_failure(tmp_path),
    ):
        raise slow
