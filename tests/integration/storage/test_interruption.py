"""A command that does not end in order is ended: soon after one Ctrl-C, at once after two, after its paid calls."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.paths import ROOT

HANGS = """
import sys, threading, time
from connectors.interfaces import cancellation
from flows.runtime.interruption import described, interruptible_command

def hang():
    while True:
        time.sleep(0.1)

paying = threading.Event()

def pay():
    with cancellation.paid_calls():
        paying.set()
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end and not cancellation.is_cancelled():
            time.sleep(0.05)

with interruptible_command(), described(lambda: ["Interrupted. Resume with: wasp resume RUN"]):
    threading.Thread(target=hang).start()  # as a library's thread that nobody ends
    threading.Thread(target=pay).start()
    try:
        paying.wait()
        print("started", flush=True)
        hang()
    finally:
        hang()  # as a client that repeats its calls
"""


@pytest.mark.parametrize(
    ("number", "paid_seconds", "presses", "least", "most"),
    [
        (signal.SIGINT, 0.0, 1, 0.0, 20.0),
        (signal.SIGTERM, 0.0, 1, 0.0, 20.0),
        (signal.SIGINT, 6.0, 1, 6.0, 30.0),
        (signal.SIGINT, 600.0, 2, 0.0, 20.0),
    ],
)
def test_a_command_that_hangs_is_ended(
    number: signal.Signals, paid_seconds: float, presses: int, least: float, most: float
) -> None:
    command = [sys.executable, "-c", HANGS, str(paid_seconds)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), text=True, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    begun = time.monotonic()
    for _ in range(presses):
        process.send_signal(number)
        time.sleep(0.3)
    _, errors = process.communicate(timeout=60)
    waited = time.monotonic() - begun
    assert process.returncode == 128 + number
    assert least <= waited < most
    if presses == 1:
        assert errors == "Interrupted. Resume with: wasp resume RUN\n"
