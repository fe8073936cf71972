"""Background processes are found again whatever became of their parents, and end whole."""

import os
import signal
import sys
import time

import psutil
import pytest

from connectors.interfaces.errors import ConfigError, WaspError
from deployments.stack import processes
from deployments.stack.logs import log_tail, rotate
from deployments.stack.processes import Service, Started
from tests.support.servers.ports import free_port

SLEEPER = "import time; time.sleep(600)"
PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], start_new_session=True)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"


def python(name: str, code: str) -> Service:
    return Service(name, [sys.executable, "-c", code], dict(os.environ))


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    processes.end(processes.stack_processes(tmp_path), seconds=0)


def wait_for(question, seconds: float = 10):
    deadline = time.monotonic() + seconds
    while not (found := question()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_a_child_with_its_own_session_is_found_after_its_parent_is_gone(folder) -> None:
    parent = processes.start(python("parent", PARENT), folder)
    wait_for(lambda: parent.process() is None)
    orphan = wait_for(lambda: processes.stack_processes(folder))
    assert len(orphan) == 1
    processes.end(orphan, seconds=5)
    assert processes.stack_processes(folder) == []


def test_another_stack_is_left_alone(folder, tmp_path_factory) -> None:
    other = tmp_path_factory.mktemp("other")
    mine, theirs = (processes.start(python("one", SLEEPER), place) for place in (folder, other))
    wait_for(lambda: processes.stack_processes(other))
    processes.end(processes.stack_processes(folder), seconds=5)
    assert mine.process() is None
    assert theirs.process() is not None
    processes.end(processes.stack_processes(other), seconds=5)


def test_what_ignores_the_request_is_killed(folder) -> None:
    started = processes.start(python("stubborn", STUBBORN), folder)
    wait_for(lambda: "deaf" in log_tail(folder, "stubborn"))
    processes.end(processes.stack_processes(folder), seconds=0.5)
    assert started.process() is None


def test_a_number_that_was_given_to_another_process_is_not_ours() -> None:
    own = psutil.Process()
    assert Started(own.pid, own.create_time()).process() is not None
    assert Started(own.pid, own.create_time() - 3600).process() is None


def test_a_service_that_dies_at_its_start_shows_the_end_of_its_log(folder) -> None:
    started = processes.start(python("broken", "raise SystemExit('no such database')"), folder)
    with pytest.raises(WaspError, match="(?s)broken ended at its start.*broken.log.*no such database.*make down"):
        processes.wait_until(lambda: False, started, "broken", folder)


def test_a_service_that_stays_silent_is_given_up(folder) -> None:
    started = processes.start(python("silent", SLEEPER), folder)
    with pytest.raises(WaspError, match="did not respond within 1 s"):
        processes.wait_until(lambda: False, started, "silent", folder, seconds=0.6)


def test_a_taken_port_names_the_variable_to_change() -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Port {port} for prefect .*PREFECT_PORT={port + 100}"):
            processes.check_port(Service("prefect", [], {}, port, "PREFECT_PORT"))
    processes.check_port(Service("prefect", [], {}, free_port(), "PREFECT_PORT"))


def test_a_large_log_is_rotated_while_its_service_writes(folder) -> None:
    code = "import time\nfor number in range(600):\n    print(f'line {number} ' + 'x' * 80); time.sleep(0.02)"
    processes.start(python("talker", code), folder)
    log = folder / "logs" / "talker.log"
    for _ in range(5):
        wait_for(lambda: log.stat().st_size > 300)
        rotate(folder, largest=300)
        assert log.stat().st_size < 300
    logs = sorted(path.name for path in (folder / "logs").iterdir())
    assert logs == ["talker.log", "talker.log.1", "talker.log.2", "talker.log.3"]
    wait_for(lambda: log.stat().st_size > 0)
    assert log.read_bytes().startswith(b"line "), "the service goes on at the start of the emptied file"
    text = "".join((folder / "logs" / path).read_text() for path in logs)
    numbers = [line.split()[1] for line in text.splitlines()]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("heard", [True, False], ids=["in a shell", "in a shell's background"])
def test_interrupt_is_another_word_than_terminate(folder, heard: bool) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler if heard else signal.SIG_IGN)
    code = "import time\ntry:\n    print('on'); time.sleep(600)\nexcept KeyboardInterrupt:\n    print('in order')"
    try:
        processes.start(python("orderly", code), folder)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for(lambda: "on" in log_tail(folder, "orderly"))
    processes.end(processes.stack_processes(folder), seconds=5, number=signal.SIGINT)
    assert "in order" in log_tail(folder, "orderly")
