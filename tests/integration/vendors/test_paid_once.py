"""No answer is paid twice: kill -9, resume and random faults, counted by the server."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.paths import ROOT
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, failure, no_choices
from tests.support.servers.vendor_models import IN_FLIGHT, VENDORS, recording, writings

CHILD = """
import sys
from pathlib import Path
from tests.support.servers.vendor_models import recording, writings
recording(sys.argv[1], sys.argv[2], Path(sys.argv[3])).complete(writings(300))
"""


@pytest.mark.parametrize("vendor", VENDORS)
def test_after_kill_9_at_most_the_answers_in_flight_are_asked_again(vendor, tmp_path):
    with VendorServer(latency=0.03) as server:
        command = [sys.executable, "-c", CHILD, vendor, server.url, str(tmp_path)]
        child = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
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
