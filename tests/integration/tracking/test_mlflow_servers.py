"""A server of MLflow that hangs, and a real one."""

import http.server
import importlib.util
import threading
import time

import pytest

from connectors.tracking.address import AS_TRAINING, page, redact, scrub, table_page
from tests.support.servers.ports import free_port
from tests.support.tracking import history, run_at, the_run, timed, whole_run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="needs the extra `tracking`"
)


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


def test_a_server_that_hangs_after_its_health_answer_delays_a_run_by_less_than_ten_seconds(
    tmp_path,
):
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), HealthyOnlyAtFirstSight)
    served.daemon_threads = True
    threading.Thread(target=served.serve_forever, daemon=True).start()
    run = run_at(f"http://127.0.0.1:{served.server_port}", tmp_path)
    delay = timed(lambda: (whole_run(run), run.metrics({"late": 1.0}, step=9)))
    served.shutdown()
    assert delay < 10.0
    assert not run.is_sent


def test_a_password_in_the_address_is_in_no_file_and_no_message(store, tmp_path, caplog):
    address = f"http://nurse:p%40ss-w0rd@127.0.0.1:{free_port()}"
    run = whole_run(run_at(address, tmp_path))
    sent = (tmp_path / "mlflow.json").read_text()
    for text in (sent, caplog.text, run.problem, scrub(f"GET {address} failed", address)):
        assert "w0rd" not in text
        assert "nurse" not in text
    assert "127.0.0.1" in run.problem
    assert (
        redact("postgresql+psycopg2://u:p@db/x?password=q")
        == "postgresql+psycopg2://***@db/x?password=***"
    )


def test_a_link_uses_the_address_that_browsers_type(monkeypatch):
    inside = "http://nurse:word@mlflow:5000"
    assert page(inside, "1", "r") == f"http://mlflow:5000/#/experiments/1/runs/r?{AS_TRAINING}"
    monkeypatch.setenv("MLFLOW_PUBLIC_URL", "https://mlflow.example.org/")
    assert (
        page(inside, "1", "r") == f"https://mlflow.example.org/#/experiments/1/runs/r?{AS_TRAINING}"
    )
    assert page("sqlite:///mlflow.db", "1", "r") is None
    table = "https://mlflow.example.org/#/experiments/7/runs?viewStateShareKey=wasp&"
    assert table_page(str(page(inside, "7", "r"))) == f"{table}{AS_TRAINING}"


# --- a real server
def test_a_server_gets_everything_once_and_links_to_the_run(server, tmp_path, capfd):
    sent = whole_run(run_at(server, tmp_path), run_id="served")
    assert "http" not in capfd.readouterr().out, "MLflow's links open the pages of chats"
    client, run = the_run(server, "served")
    assert sent.is_sent
    assert history(server, "fid", "served") == [(0, 0.5), (1, 0.4), (2, 0.3)]
    assert [entry.path for entry in client.list_artifacts(run.info.run_id, "plots")] == [
        "plots/fid.svg"
    ]
    assert sent.mlflow_run_id == run.info.run_id
    assert sent.ui_link() == page(server, run.info.experiment_id, run.info.run_id)
    time.sleep(0.01)
    whole_run(run_at(server, tmp_path), run_id="served", flow_run="f-2")
    _, again = the_run(server, "served")
    assert (again.info.to_proto(), again.data.tags) == (run.info.to_proto(), run.data.tags)
    assert again.outputs.to_proto() == run.outputs.to_proto()
