"""Parties started by their command on a server of their own: killed at three moments, behind TLS with a password."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.rows import RowsRef
from flows.federation.partition import PartyFile, partition
from flows.runtime.stores import open_ledger
from tasks.federation.partition import Partition
from tests.support.paths import ROOT
from tests.support.runs.clear_votes import both_sides, clear_sum
from tests.support.runs.federation import PLANTED, open_federated, planted_rows
from tests.support.runs.pipeline import SMALL, Pipeline, last_json
from tests.support.servers.ports import free_port
from tests.support.servers.prefect import prefect_server
from tests.support.servers.s3 import s3_server
from tests.support.waits import WAIT_SECONDS

pytestmark = pytest.mark.slow


class Scene:
    """Parties in folders, their processes, and the coordinator's command."""

    def __init__(self, folder: Path, api: str, parties: int, minimum: int | None = None, minutes: float = 6) -> None:
        self.folder, self.api = folder, api
        self.pipeline = Pipeline(folder / "home", api)
        rows = planted_rows(folder / "rows.parquet")
        file = PartyFile("8", api=api, embedder="hashing")
        partition(RowsRef(str(rows)), folder / "parties", Partition(parties), file, self.pipeline.home)
        rows.unlink()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for one in self.files():
            one.write_text(one.read_text() + "poll_seconds: 0.5\n")
        chosen: dict[str, Any] = {
            "registry": str(folder / "parties/parties.yaml"),
            "exchange": str(folder / "parties/exchange"),
            "minutes": minutes,
        }
        self.config = folder / "run.yaml"
        values = SMALL | {
            "private": None,
            "parties": chosen | ({"minimum": minimum} if minimum else {}),
            "embedder": {"connector": "hashing", "model": "", "options": {}},
            "method": {"guidance": "votes", "iterations": 2, "samples": 48, "votes": 4, "examples": 4},
        }
        self.config.write_text(yaml.safe_dump(values))

    def files(self) -> list[Path]:
        return sorted((self.folder / "parties").glob("*/party.yaml"))

    def start(self, party: str, **environment: str) -> None:
        """Type `wasp party` on the machine of a party."""
        folder = self.folder / "parties" / party
        kept = {name: value for name, value in self.pipeline.environment.items() if name != "WASP_HOME"}
        command = [sys.executable, "-m", "flows.cli.main", "party", "--config", str(folder / "party.yaml")]
        with (folder / "party.log").open("ab") as log:
            self.processes[party] = subprocess.Popen(
                command, cwd=folder, env=kept | {"PYTHONPATH": str(ROOT)} | environment, stdout=log, stderr=log
            )

    def kill(self, party: str) -> None:
        self.processes[party].send_signal(signal.SIGKILL)
        self.processes[party].wait(WAIT_SECONDS)

    def exchange(self, pattern: str) -> list[Path]:
        """Return a kind of messages of a party, as KIND/PARTY."""
        kind, party = pattern.split("/")
        folder = self.folder / "parties/exchange/parties"
        return sorted(folder.glob(f"{party}/rounds/*/iteration=*/attempt=*/{kind}"))

    def until(self, holds: Callable[[], Any], seconds: float = WAIT_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.02)

    def logs(self) -> str:
        return "\n".join(file.read_text()[-1500:] for file in (self.folder / "parties").glob("*/party.log"))

    def releases(self) -> dict[str, int]:
        found = {}
        for home in (*(file.parent / "state" for file in self.files()), self.pipeline.home):
            book = open_ledger(home)
            found[home.parent.name if home.name == "state" else "coordinator"] = sum(
                book.status(dataset).releases for dataset in book.datasets()
            )
        return found

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            process.wait(WAIT_SECONDS)


@pytest.fixture
def scene(api: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(tmp_path, api, 3, minimum=2, minutes=getattr(request, "param", 6))
    for file in made.files():
        made.start(file.parent.name)
    try:
        made.until(lambda: all("waiting" in file.read_text() for file in tmp_path.glob("parties/*/party.log")))
        made.until(lambda: _deployed(api, [file.parent.name for file in made.files()]))
        yield made
    finally:
        made.end()


def _deployed(api: str, names: list[str]) -> bool:
    from tests.support.runs.served_flow import ask

    found = {one["name"] for one in ask(api, "/deployments/filter", {"limit": 200})}
    return found >= set(names)


@pytest.mark.parametrize("scene", [4], indirect=True, ids=["it-is-waited-for-4-minutes"])
def test_a_party_killed_before_it_answered_is_left_out(scene: Scene) -> None:
    os.kill(scene.processes["party-2"].pid, signal.SIGSTOP)
    run = scene.pipeline.start("run", "wasp", "--config", str(scene.config), "--json")
    scene.until(lambda: scene.exchange("keys/party-1"))
    scene.kill("party-2")
    told, errors = run.communicate(timeout=900)
    assert run.returncode == 0, errors[-3000:] + scene.logs()
    (round_,) = last_json(told)["parties"]["rounds"]
    assert list(round_["dropped"]) == ["party-2"]
    assert scene.releases() == {"party-1": 1, "party-2": 0, "party-3": 1, "coordinator": 1}


def test_a_party_killed_when_it_was_ready_is_replaced_by_its_next_process(scene: Scene) -> None:
    """Its key died with it: before all are ready that costs nobody anything, and it joins the next attempt."""
    os.kill(scene.processes["party-3"].pid, signal.SIGSTOP)
    run = scene.pipeline.start("run", "wasp", "--config", str(scene.config), "--json")
    scene.until(lambda: scene.exchange("keys/party-1") and scene.exchange("keys/party-2"))
    scene.kill("party-1")
    scene.start("party-1")
    scene.until(lambda: (scene.folder / "parties/party-1/party.log").read_text().count("waiting") == 2)
    os.kill(scene.processes["party-3"].pid, signal.SIGCONT)
    told, errors = run.communicate(timeout=900)
    assert run.returncode == 0, errors[-3000:] + scene.logs()
    (round_,) = last_json(told)["parties"]["rounds"]
    assert round_["attempt"] in (1, 2)
    assert scene.releases() == dict.fromkeys(["party-1", "party-2", "party-3", "coordinator"], 1), round_


def test_a_party_and_the_coordinator_killed_after_masking_change_nothing(scene: Scene) -> None:
    run = scene.pipeline.start("run", "wasp", "--config", str(scene.config), "--json")
    scene.until(lambda: scene.exchange("masked/party-1"))
    run.kill()
    scene.kill("party-1")
    run.wait()
    scene.start("party-1")
    kept = {path: path.read_bytes() for path in scene.exchange("masked/*")}
    done = scene.pipeline.call("run", "wasp", "--config", str(scene.config), "--json")
    assert done.returncode == 0, done.stderr[-3000:] + scene.logs()
    (round_,) = last_json(done.stdout)["parties"]["rounds"]
    assert (round_["attempt"], round_["parties"]) == (1, 3)
    assert {path: path.read_bytes() for path in kept} == kept, "nobody masked twice with one key"
    assert scene.releases() == dict.fromkeys(["party-1", "party-2", "party-3", "coordinator"], 1)


def test_pre_text_with_parties_sends_half_of_what_wasp_sends(scene: Scene) -> None:
    values = yaml.safe_load(scene.config.read_text())
    asked: dict[str, dict[str, Any]] = {}
    methods = {
        "wasp": {"guidance": "votes", "iterations": 2, "samples": 72, "votes": 4, "examples": 4},
        "pre_text": {"iterations": 1, "samples": 36, "population": 36, "look_ahead": 0, "mask_rounds": 1},
    }
    for flow, method in methods.items():
        filler = {"filler": {"name": "filler", "connector": "ngram", "model": "helpdesk"}} if flow != "wasp" else {}
        scene.config.write_text(yaml.safe_dump(values | {"method": method, "privacy": {"epsilon": 2.0}} | filler))
        done = scene.pipeline.call("run", flow, "--config", str(scene.config), "--json")
        assert done.returncode == 0, done.stderr[-3000:] + scene.logs()
        asked[flow] = last_json(done.stdout)["parties"]["rounds"][0]["of_one"]["up"]
    header = asked["wasp"]["masked"] - 4 * 2 * 36
    assert 64 < header < 600
    assert abs(asked["pre_text"]["masked"] - 4 * 36 - header) < 20


# --- TLS, a password, two loopback addresses
@contextlib.contextmanager
def tls(port: int, folder: Path, hosts: tuple[str, ...]) -> Iterator[tuple[int, Path]]:
    """Speak TLS on `hosts` for the server on `port`; the value: its port there, the certificate to check with."""
    key, certificate = _certificate(folder, hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    there, loop = free_port(), asyncio.new_event_loop()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    async def main() -> None:
        for host in hosts:
            await asyncio.start_server(serve, host, there, ssl=context)

    loop.run_until_complete(main())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield there, certificate
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _certificate(folder: Path, hosts: tuple[str, ...]) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "coordinator")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host)) for host in hosts]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    private, public = folder / "server.key", folder / "server.pem"
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return private, public


def test_two_parties_on_two_addresses_speak_tls_with_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "fed:secret-of-the-test")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "fed:secret-of-the-test")
    server = tmp_path / "prefect"
    server.mkdir()
    hosts = ("127.0.0.1", "127.0.0.2")
    with prefect_server(server) as plain, tls(int(plain.split(":")[2].split("/")[0]), tmp_path, hosts) as (port, ca):
        monkeypatch.delenv("PREFECT_SERVER_API_AUTH_STRING")
        scene = Scene(tmp_path, f"https://127.0.0.1:{port}/api", 2)
        for file, host in zip(scene.files(), hosts, strict=True):
            text = file.read_text().replace(f"https://127.0.0.1:{port}", f"https://{host}:{port}")
            file.write_text(text + f"certificate: {ca}\n")
        access = {"PREFECT_API_AUTH_STRING": "fed:secret-of-the-test"}
        scene.pipeline.extra = access | {"PREFECT_API_SSL_CERT_FILE": str(ca)}
        try:
            scene.start("party-1", **access)
            scene.start("party-2", **access)
            scene.until(lambda: len(_rows(server, "select name from deployment where name like 'party-%'")) == 2)
            done = scene.pipeline.call("run", "wasp", "--config", str(scene.config), "--json")
            assert done.returncode == 0, done.stderr[-3000:] + scene.logs()
            assert last_json(done.stdout)["parties"]["rounds"][0]["parties"] == 2
            # the server's whole database: no row, no label of one, no vote
            assert PLANTED.encode() not in b"".join(path.read_bytes() for path in server.glob("prefect.db*"))

            # without the password, and without the certificate
            scene.pipeline.extra = {"PREFECT_API_SSL_CERT_FILE": str(ca), "PREFECT_API_AUTH_STRING": "fed:other"}
            refused = scene.pipeline.call("run", "wasp", "--config", str(scene.config), "--set", "execution.seed=1")
            assert refused.returncode != 0
            stranger = scene.files()[0]
            stranger.write_text(stranger.read_text().replace(f"certificate: {ca}\n", ""))
            scene.end()
            left = Pipeline(tmp_path / "other", extra=access).call("party-leave", "--config", str(stranger))
            assert left.returncode != 0
            assert "CERTIFICATE_VERIFY_FAILED" in left.stderr or "ConnectError" in left.stderr
        finally:
            scene.end()


def _rows(server: Path, query: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(server / "prefect.db", timeout=20)) as db:
        return db.execute(query).fetchall()


def test_parties_meet_on_s3_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server(tmp_path) as store, tls(int(store.url.rsplit(":", 1)[1]), tmp_path, ("127.0.0.1",)) as (port, ca):
        bucket = store.bucket("parties")
        environment = store.environment | {"AWS_ENDPOINT_URL": f"https://127.0.0.1:{port}", "AWS_CA_BUNDLE": str(ca)}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        found = open_federated(tmp_path / "f", parties={"exchange": bucket})
        for file in (tmp_path / "f/parties").glob("*/party.yaml"):
            file.write_text(file.read_text().replace("exchange: ../exchange", f"exchange: {bucket}"))
        found = found.again()
        votes, info, _ = found.vote()
        assert np.array_equal(both_sides(votes), clear_sum(found))
        assert len([name for name in store.names("parties") if name.endswith("/masked")]) == 3
        assert info["parties"] == ["party-1", "party-2", "party-3"]
        monkeypatch.delenv("AWS_CA_BUNDLE")
        with pytest.raises(ArtifactError, match=r"is not available.*\(exchange\)"):
            found.again()
