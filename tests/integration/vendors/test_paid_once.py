"""No answer is paid twice: kill -9 and other processes, counted by the server."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_models import IN_FLIGHT, VENDORS, recording, writings
from tests.support.waits import wait_until

CHILD = """
import sys
from pathlib import Path
from tests.support.servers.vendor_models import recording, writings
answers = recording(sys.argv[1], sys.argv[2], Path(sys.argv[3])).complete(writings(int(sys.argv[4])))
assert [answer.finish_reason for answer in answers] == ["stop"] * int(sys.argv[4])
"""


def started(vendor: str, url: str, folder: Path, prompts: int = 300) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, vendor, url, str(folder), str(prompts)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("vendor", VENDORS)
def test_after_kill_9_at_most_the_answers_in_flight_are_requested_again(vendor, tmp_path):
    with VendorServer(latency=0.03) as server:
        child = started(vendor, server.url, tmp_path)
        wait_until(lambda: server.count >= 150, child, every=0.002)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        before = server.count
        assert 150 <= before < 300
        model = recording(vendor, server.url, tmp_path)
        answers = model.complete(writings(300))
        again = server.count - 300
        assert all(answer.finish_reason == "stop" for answer in answers)
        assert 0 <= again <= IN_FLIGHT
        assert max(server.prompts.values()) <= 2
        assert model.reused >= before - IN_FLIGHT
        asked = server.count
        assert recording(vendor, server.url, tmp_path).complete(writings(300)) == answers
        assert server.count == asked


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_that_need_the_same_answers_pay_for_each_once(processes, tmp_path):
    with VendorServer(latency=0.02) as server:
        children = [started("openai", server.url, tmp_path, 1000) for _ in range(processes)]
        assert [child.wait(120) for child in children] == [0] * processes
        assert server.count == 1000
        assert set(server.prompts.values()) == {1}


def test_what_a_killed_process_had_claimed_is_free_at_once(tmp_path):
    with VendorServer(latency=0.05) as server:
        killed = started("openai", server.url, tmp_path)
        wait_until(lambda: server.count >= 50, killed, every=0.002)
        other = started("openai", server.url, tmp_path)
        time.sleep(0.3)
        killed.kill()
        killed.wait()
        assert other.wait(60) == 0
        assert 300 <= server.count <= 300 + IN_FLIGHT
