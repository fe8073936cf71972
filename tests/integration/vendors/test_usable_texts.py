"""No release is paid for a vote over texts that cleaning left out: real ledger, real rows, a server that misbehaves."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import FinalError, TooFewTextsError, step_of
from flows.catalog import find_flow
from flows.config.files import check_config
from flows.engine.lifecycle import return_reservation
from flows.engine.prepare import prepare
from flows.engine.run import Run
from flows.engine.run_manifest import open_manifest
from flows.methods.aug_pe.run import AugPeRun
from flows.methods.kd_tutor.run import KdRun
from flows.methods.pre_text.run import PreTextRun
from flows.methods.wasp.run import WaspRun
from tasks.private.density.step import estimate_density
from tasks.private.draw_once import READ_BACK
from tasks.private.teachers.step import teach
from tasks.private.votes.step import vote
from tasks.steps.values import TextTable
from tasks.writing.texts import write_samples
from tests.support.runs.kd_tutor import written_by
from tests.support.runs.pipeline import FURTHER, METHODS, SMALL
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request, ok, text_for

REFUSAL = "I am sorry, but I cannot help with that request."
RUNS: dict[str, type[Run]] = {
    "wasp": WaspRun,
    "aug_pe": AugPeRun,
    "pre_text": PreTextRun,
    "kd_tutor": KdRun,
}
CONCURRENCY = 16
SHORT = {"guidance": "votes", "iterations": 2, "samples": 48, "votes": 4, "examples": 4}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[VendorServer]:
    monkeypatch.setenv("VENDOR_KEY", "k")
    with VendorServer() as running:
        yield running


def opened(
    home: Path, server: VendorServer, flow: str = "wasp", style: str = "auto", **method: Any
) -> Run:
    values = SMALL | FURTHER.get(flow, {}) | {"plms": [server.plm(style=style)], "test": None}
    values["method"] = (SHORT if flow == "wasp" else METHODS[flow]) | method
    if method.get("guidance") == "kernel":
        del values["method"]["votes"]
    prepared = prepare(flow, check_config(find_flow(flow).config, values, "the test"), home)
    name = prepared.tools.run_name
    prepared.tools.ledger.reserve(name.dataset, prepared.plan, "the test")
    return RUNS[flow](prepared, open_manifest(flow, prepared), 0.0)


def kinds(run: Run) -> list[str]:
    return [entry.kind for entry in run.tools.ledger.history("desk")]


def release(run: Run, written: list[TextTable]) -> str:
    """Draw the first release of a run from its texts."""
    if isinstance(run, KdRun):
        return teach(run.tools, run.teacher_spec(), 0, written)[1]
    if isinstance(run, WaspRun) and run.config.releases_density:
        (density,) = run.prepared.guarantee.releases
        return estimate_density(run.tools, run.payer, density.noise, run.needed, written)[1]
    return vote(run.tools, run.vote_spec(0), written)[1]


def one_class_refused(request: Request) -> Reply:
    """Refuse one class and answer the others."""
    return ok(request, REFUSAL if "login" in request.prompt else text_for(request))


@pytest.mark.parametrize(
    "text", [" ", "<html><body>502</body></html>", "word " * 60_000, "\x01\ufffd\x1f", REFUSAL]
)
def test_a_vote_over_no_texts_is_not_paid(tmp_path: Path, server: VendorServer, text: str) -> None:
    server.plan = lambda request: ok(request, text)
    run = opened(tmp_path / "home", server)
    written = written_by(run)
    assert re.search(
        r"none of its first 24 answers is usable \(24 \w+\), for example \".*\" and \"",
        written[0].down,
    )
    assert 24 <= server.count <= 24 + 2 * CONCURRENCY, "not the rounds of 570 calls"
    with pytest.raises(
        FinalError, match="Every PLM is down in iteration 0. gpt: .*none of its first 24 answers"
    ):
        run.require_texts(0, written)
    with pytest.raises(TooFewTextsError, match=r"6 of 6 classes .*'login_problem' has 0 of 4"):
        release(run, written)
    assert kinds(run) == ["register", "reserve"]


def test_a_model_of_style_list_continues_lists_and_varies_texts_by_lists(
    tmp_path: Path, server: VendorServer
) -> None:
    run = opened(tmp_path, server, "aug_pe", "list", variation="paraphrase")
    (table,) = written_by(run)
    new = set(server.prompts)
    assert all(prompt.endswith("\n1.") for prompt in new)
    (job,) = run.vary_jobs(0, [table], 1, run.variers(table), run.variation)
    write_samples(run.tools, job)
    varied = set(server.prompts) - new
    assert varied
    assert all(
        ", said in different ways." in prompt and prompt.endswith("\n2.") for prompt in varied
    )


def test_reasoning_that_uses_all_tokens_is_stopped_early_with_advice(
    tmp_path: Path, server: VendorServer
) -> None:
    server.plan = lambda request: ok(request, None, "length", (20, 60))
    run = opened(tmp_path / "home", server)
    (written,) = written_by(run)
    assert "24 error" in written.down
    assert "Raise max_tokens, or lower the reasoning effort" in written.down
    assert server.count <= 24 + 2 * CONCURRENCY


def test_a_resumed_run_judges_new_answers_and_not_the_stored_ones(
    tmp_path: Path, server: VendorServer
) -> None:
    server.plan = lambda request: ok(request, REFUSAL)
    run = opened(tmp_path / "home", server)
    assert written_by(run)[0].down
    before = server.count
    server.plan = lambda request: None
    (written,) = written_by(run)
    assert not written.down
    assert written.samples.rows == 24
    assert server.count > before


@pytest.mark.parametrize(
    ("flow", "method"),
    [
        ("wasp", {}),
        ("wasp", {"guidance": "kernel"}),
        ("aug_pe", {}),
        ("pre_text", {}),
        ("kd_tutor", {}),
    ],
)
def test_every_release_that_depends_on_texts_needs_some_of_each_class(
    tmp_path: Path, server: VendorServer, flow: str, method: dict[str, Any]
) -> None:
    server.plan = one_class_refused
    run = opened(tmp_path / "home", server, flow, **method)
    written = written_by(run)
    with pytest.raises(
        TooFewTextsError, match=r"1 of 6 classes .*'login_problem' has 0 of \d+ \(gpt: .*refusal"
    ):
        release(run, written)
    assert kinds(run) == ["register", "reserve"]


def test_the_same_text_for_every_class_counts_once(tmp_path: Path, server: VendorServer) -> None:
    server.plan = lambda request: ok(request, "The card that I ordered has still not arrived.")
    run = opened(tmp_path / "home", server)
    written = written_by(run)
    with pytest.raises(TooFewTextsError, match=r"has 1 of 4 \(gpt: 15 of 16 answers: duplicate\)"):
        run.require_texts(0, written)


def test_a_stop_right_after_writing_names_its_step_and_returns_the_reservation(
    tmp_path: Path, server: VendorServer
) -> None:
    server.plan = one_class_refused
    run = opened(tmp_path / "home", server)
    with pytest.raises(TooFewTextsError, match="epsilon is unchanged") as stopped:
        run.require_texts(0, written_by(run))
    assert step_of(stopped.value) == "generate t=0"
    assert return_reservation(run) == "The reserved budget was returned."
    assert kinds(run) == ["register", "reserve", "finish"]


def test_a_resumed_run_requests_the_missing_texts_alone(
    tmp_path: Path, server: VendorServer
) -> None:
    server.plan = one_class_refused
    run = opened(tmp_path / "home", server)
    before = written_by(run)
    with pytest.raises(TooFewTextsError):
        release(run, before)
    asked = server.count
    server.plan = lambda request: None
    written = written_by(run)
    assert server.count - asked == 5, "four texts and a spare one; all others are known"
    assert "no noise" not in release(run, written)
    assert kinds(run)[-1] == "release"
    assert return_reservation(run).startswith("Its remaining budget is still reserved")
    written_by(run)
    assert server.count == asked + 5, "what a vote was about is not written again"


def test_a_release_that_is_in_the_ledger_is_read_back_whatever_it_was_about(
    tmp_path: Path, server: VendorServer
) -> None:
    server.plan = lambda request: ok(
        request, "I cannot log in to my account." if "login" in request.prompt else ""
    )
    run = opened(tmp_path / "home", server)
    written, spec = written_by(run), run.vote_spec(0)
    vote(run.tools, replace(spec, needed={"login_problem": 1}), written)
    next((tmp_path / "home").rglob("release.parquet")).unlink()
    assert vote(run.tools, spec, written)[1] == READ_BACK
    assert kinds(run).count("release") == 1
