"""No answer is paid twice: kill -9, resume and random faults, counted by the server."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, failure, no_choices
from tests.support.servers.vendor_models import IN_FLIGHT, VENDORS, recording, writings

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
def test_after_kill_9_at_most_the_answers_in_flight_are_asked_again(vendor, tmp_path):
    with VendorServer(latency=0.03) as server:
        child = started(vendor, server.url, tmp_path)
        until = time.monotonic() + 60
        while server.count < 150 and time.monotonic() < until:
            time.sleep(0.002)
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


@pytest.mark.parametrize("vendor", VENDORS)
def test_five_percent_random_faults_end_with_every_answer_and_each_stored_once(vendor, tmp_path):
    dice = random.Random(11)
    faults = [failure(429), failure(500), failure(529), Reply(drop=True), Reply(body=b"{"), no_choices]
    made = []

    def plan(request):
        if dice.random() >= 0.05:
            return None
        made.append(fault := dice.choice(faults))
        return fault(request) if callable(fault) else fault

    with VendorServer(latency=0.005, plan=plan) as server:
        model = recording(vendor, server.url, tmp_path)
        answers = model.complete(writings(600))
        assert [answer.finish_reason for answer in answers] == ["stop"] * 600
        assert len({answer.text for answer in answers}) == 600
        assert made
        assert server.count == 600 + len(made)
    assert model.store.count(model.identity) == 600
    assert set(model.store.asked(model.identity).values()) == {1}
    empty = sum(fault is no_choices for fault in made)
    assert (model.usage.tokens_in, model.usage.tokens_out) == (11 * (600 + empty), 7 * (600 + empty))


def test_an_interrupted_run_is_taken_up_where_it_stopped(tmp_path):
    with VendorServer(latency=0.01) as server:
        kept = []

        def keep(position, completion):
            kept.append(position)
            if len(kept) == 40:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            recording("openai", server.url, tmp_path).complete(writings(100), keep)
        model = recording("openai", server.url, tmp_path)
        assert all(answer.finish_reason == "stop" for answer in model.complete(writings(100)))
        assert model.reused >= 40
        assert server.count <= 100 + 2 * IN_FLIGHT


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
        until = time.monotonic() + 60
        while server.count < 50 and time.monotonic() < until:
            time.sleep(0.002)
        other = started("openai", server.url, tmp_path)
        time.sleep(0.3)
        killed.kill()
        killed.wait()
        assert other.wait(60) == 0
        assert 300 <= server.count <= 300 + IN_FLIGHT


def test_threads_with_models_of_their_own_share_the_answers_of_a_store(tmp_path):
    answers = {}

    def ask(number):
        answers[number] = recording("openai", server.url, tmp_path).complete(writings(200)[:: 1 - 2 * (number % 2)])

    with VendorServer(latency=0.01) as server:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert server.count == 200
    assert answers[0] == answers[2] == answers[1][::-1]
