"""The first Ctrl-C or SIGTERM waits for the calls in flight, the second one cancels them; counted by the server."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from connectors.interfaces import cancellation
from connectors.models.vendors.endpoint_limiter import FIRST_LIMIT
from tests.support.paths import ROOT
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import failure
from tests.support.servers.vendor_models import IN_FLIGHT, recording, writings
from tests.support.waits import wait_until

PROMPTS = 120


@pytest.fixture(autouse=True)
def ended_stop():
    """Later tests of this process do not stop."""
    yield
    with cancellation.work():
        pass


CHILD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from flows.runtime.interruption import ended_in_order
from tests.support.servers.vendor_models import recording, writings

def ask():
    recording("openai", sys.argv[1], Path(sys.argv[2])).complete(writings(int(sys.argv[3])))

with ended_in_order():
    if sys.argv[4] == "main":
        ask()
    else:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(ask).result()
"""


def begin(url: str, folder: Path, where: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", CHILD, url, str(folder), str(PROMPTS), where]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_waits_for_the_calls_in_flight(sent, where, tmp_path):
    with VendorServer(latency=0.25) as server:
        child = begin(server.url, tmp_path, where)
        wait_until(lambda: server.count >= 3 * IN_FLIGHT, every=0.002)
        child.send_signal(sent)
        errors = child.communicate(timeout=30)[1]
        assert child.returncode == (143 if sent is signal.SIGTERM else -signal.SIGINT), errors
        assert "calls in flight" in errors
        assert server.count < PROMPTS
        recording("openai", server.url, tmp_path).complete(writings(PROMPTS))
        assert server.count == PROMPTS


@pytest.mark.parametrize("where", ["main", "thread"])
def test_the_second_signal_cancels_the_calls_in_flight(where, tmp_path):
    with VendorServer(latency=60) as server:
        child = begin(server.url, tmp_path, where)
        wait_until(lambda: server.count >= FIRST_LIMIT, every=0.002)
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert child.poll() is None
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        errors = child.communicate(timeout=30)[1]
        assert child.returncode != 0, errors
        assert time.monotonic() - began < 10
        assert server.count == FIRST_LIMIT


def test_a_stop_in_another_thread_keeps_what_is_in_flight_and_starts_nothing(tmp_path):
    raised: list[BaseException] = []

    def ask():
        try:
            recording("openai", server.url, tmp_path).complete(writings(PROMPTS))
        except BaseException as error:
            raised.append(error)

    with VendorServer(latency=0.2) as server, cancellation.work():
        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: server.count >= IN_FLIGHT, every=0.002)
        cancellation.stop()
        thread.join(30)
        assert [type(error) for error in raised] == [cancellation.ProcessEnds]
        before = server.count
        assert before <= 2 * IN_FLIGHT
    with VendorServer() as server, cancellation.work():
        recording("openai", server.url, tmp_path).complete(writings(PROMPTS))
        assert server.count == PROMPTS - before


def test_a_caller_that_must_stop_still_gets_the_calls_in_flight(tmp_path):
    stored = []

    def keep(position, completion):
        stored.append(position)
        if len(stored) >= 5:
            raise cancellation.ProcessEnds

    with VendorServer(latency=0.2) as server:
        with pytest.raises(cancellation.ProcessEnds):
            recording("openai", server.url, tmp_path).complete(writings(PROMPTS), keep)
        before = server.count
        assert before <= 2 * IN_FLIGHT + 5
        recording("openai", server.url, tmp_path).complete(writings(PROMPTS))
        assert server.count == PROMPTS


def test_an_error_of_a_signal_handler_stops_the_calls(tmp_path):
    """Prefect raises its own error, which is no Exception, where a run is in its main thread."""

    class Terminated(BaseException):
        pass

    def end(number, frame):
        raise Terminated

    before = signal.signal(signal.SIGALRM, end)
    try:
        with VendorServer(latency=0.2) as server, cancellation.work():
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(Terminated):
                recording("openai", server.url, tmp_path).complete(writings(PROMPTS))
            assert server.count < PROMPTS
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_stop_does_not_wait_for_retries(tmp_path):
    with VendorServer(plan=lambda request: failure(503, headers={"retry-after": "60"})) as server:
        with cancellation.work():
            timer = threading.Timer(0.5, cancellation.stop)
            timer.start()
            began = time.monotonic()
            with pytest.raises(cancellation.ProcessEnds):
                recording("openai", server.url, tmp_path).complete(writings(2))
        assert time.monotonic() - began < 5
