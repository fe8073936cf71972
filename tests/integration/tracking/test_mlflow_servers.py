import contextlib
import http.server
import importlib.util
import pickle
import socket
import threading
import time
import urllib.request

import pytest

from connectors.tracking.address import page, redact, scrub
from connectors.tracking.sender import TimeLimits
from connectors.tracking.tracker import push
from tests.support.servers.ports import free_port
from tests.support.tracking import TAGS, history, the_run, timed, tracker_at, whole_run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs the extra `tracking`")


# --- a server that is not there
def test_a_server_that_is_down_delays_nothing_and_push_tells_it_all_once(store, tmp_path):
    down = tracker_at(f"http://127.0.0.1:{free_port()}", tmp_path)
    assert timed(lambda: whole_run(down, tmp_path)) < 3.0
    assert len(down.journal.unsent()) == len(down.journal.records()) == 9
    assert "does not respond" in down.problem
    for _ in range(2):
        assert push(down.journal.path, store).left == 0
    assert history(store, "fid") == [(0, 0.5), (1, 0.4), (2, 0.3)]


def test_a_server_that_accepts_and_never_answers_delays_a_run_by_less_than_ten_seconds(tmp_path):
    with socket.create_server(("127.0.0.1", 0), backlog=50) as hung:
        tracker = tracker_at(f"http://127.0.0.1:{hung.getsockname()[1]}", tmp_path)
        assert timed(lambda: whole_run(tracker, tmp_path)) < 10.0
    assert len(tracker.journal.unsent()) == 9


class HealthyOnlyAtFirstSight(http.server.BaseHTTPRequestHandler):
    """Answers the health question and lets every other one wait."""

    def do_GET(self):
        if self.path != "/health":
            time.sleep(30)
        self.send_response(200)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_):
        pass


def test_a_server_that_hangs_after_its_health_answer_delays_a_run_by_less_than_ten_seconds(tmp_path):
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), HealthyOnlyAtFirstSight)
    served.daemon_threads = True
    threading.Thread(target=served.serve_forever, daemon=True).start()
    tracker = tracker_at(f"http://127.0.0.1:{served.server_port}", tmp_path)
    copy = pickle.loads(pickle.dumps(tracker))
    delay = timed(lambda: (whole_run(tracker, tmp_path), copy.metrics({"late": 1.0}, step=9)))
    served.shutdown()
    assert delay < 10.0
    assert len(tracker.journal.unsent()) == 10


def test_a_password_in_the_address_is_in_no_file_and_no_message(tmp_path, caplog):
    address = f"http://nurse:p%40ss-w0rd@127.0.0.1:{free_port()}"
    tracker = tracker_at(address, tmp_path)
    whole_run(tracker, tmp_path)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("tracking*")).decode()
    for text in (stored, caplog.text, tracker.problem, repr(tracker._sender), scrub(f"GET {address} failed", address)):
        assert "w0rd" not in text
        assert "nurse" not in text
    assert "127.0.0.1" in tracker.problem
    assert redact("postgresql+psycopg2://u:p@db/x?password=q") == "postgresql+psycopg2://***@db/x?password=***"


def test_a_link_uses_the_address_that_browsers_type(monkeypatch):
    inside = "http://nurse:word@mlflow:5000"
    assert page(inside, "1", "r") == "http://mlflow:5000/#/experiments/1/runs/r"
    monkeypatch.setenv("MLFLOW_PUBLIC_URL", "https://mlflow.example.org/")
    assert page(inside, "1", "r") == "https://mlflow.example.org/#/experiments/1/runs/r"
    assert page("sqlite:///mlflow.db", "1", "r") is None


# --- a real server
def test_a_server_is_told_everything_and_links_to_the_run(server, tmp_path):
    tracker = tracker_at(server, tmp_path, tags=TAGS | {"wasp.run_id": "served"})
    assert whole_run(tracker, tmp_path).left == 0
    client, run = the_run(server, "served")
    assert history(server, "fid", "served") == [(0, 0.5), (1, 0.4), (2, 0.3)]
    assert [found.path for found in client.list_artifacts(run.info.run_id, "plots")] == ["plots/fid.svg"]
    assert tracker.mlflow_run_id == run.info.run_id
    assert tracker.ui_link() == f"{server}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def relay_that_loses_the_answer_to(path, port):
    """Forward to the server; the answer to the first request of `path` is lost on its way back."""

    class Relay(http.server.BaseHTTPRequestHandler):
        lost = False

        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            asked = urllib.request.Request(f"http://127.0.0.1:{port}{self.path}", body, method=self.command)
            asked.add_header("Content-Type", "application/json")
            with urllib.request.urlopen(asked, timeout=20) as answer:
                found = answer.read()
            if self.path.endswith(path) and not Relay.lost and b'"fid"' in (body or b""):
                Relay.lost = True
                time.sleep(4)
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

        do_POST = do_PATCH = do_GET

        def log_message(self, *_):
            pass

    relay = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    relay.daemon_threads = True
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    return relay


def test_metrics_whose_confirmation_is_lost_on_the_way_are_not_told_twice(server, tmp_path, monkeypatch):
    monkeypatch.setattr("connectors.tracking.tracker.RUN_LIMITS", TimeLimits(answer=2.0, total=4.0))
    relay = relay_that_loses_the_answer_to("/runs/log-batch", int(server.rpartition(":")[2]))
    tracker = tracker_at(f"http://127.0.0.1:{relay.server_port}", tmp_path, tags=TAGS | {"wasp.run_id": "lossy"})
    tracker.start({})
    tracker.metrics({"fid": 0.5}, step=0)
    tracker.metrics({"fid": 0.4}, step=1)
    assert len(tracker.journal.unsent()) == 2
    relay.shutdown()
    assert push(tracker.journal.path, server).left == 0
    assert history(server, "fid", "lossy") == [(0, 0.5), (1, 0.4)]
