"""An approval is for the plan and all that it follows from, not for the pace of a run."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from connectors.interfaces.errors import ApprovalError, ConfigError
from flows.config.task_files import load_task
from flows.engine import approval
from flows.engine.approval import contract_of, request_approval
from flows.engine.lifecycle import return_reservation
from flows.engine.plan import planned
from flows.engine.prepare import guarantee_of, prepare
from flows.engine.tools import RunTools
from flows.runtime import pausing
from tasks.reporting import terminal as text
from tests.support.runs.prepared_run import config

CARD = load_task("support_desk")


def contract(**changes: object) -> str:
    return contract_of("wasp", config(**changes), CARD)


def test_a_contract_covers_what_is_spent_and_on_which_rows() -> None:
    for changes in (
        {"privacy": {"epsilon": 3}},
        {"method": {"iterations": 2}},
        {"private": {"path": "other.csv"}},
        {"limits": {"max_dollars": 5}},
        {"execution": {"seed": 1}},
    ):
        assert contract(**changes) != contract(), changes
    for changes in ({"execution": {"max_workers": 1}}, {"execution": {"approval": True}}):
        assert contract(**changes) == contract(), changes


def test_rows_stay_closed_when_the_answer_is_no(tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise ApprovalError("no")

    (tmp_path / "rows.csv").write_text("text,label\nMy parcel is late.,no_such_class\n")
    unusable = config(private={"path": str(tmp_path / "rows.csv"), "name": "odd"})
    problems = tmp_path / "private" / "problems" / "odd.json"
    with pytest.raises(ApprovalError):
        prepare("wasp", unusable, tmp_path, refuse)
    assert not problems.exists()
    prepare("wasp", unusable, tmp_path)
    assert problems.exists()


def test_the_plan_of_a_form_fits_its_dialog_and_loses_no_word() -> None:
    plan = text.plan({**planned(config()), "warnings": ["signal index 0.28 is below 1. " * 5]})
    narrow = approval.narrow(plan, approval.FORM_WIDTH)
    assert max(map(len, plan.splitlines())) > 100
    assert max(map(len, narrow.splitlines())) <= approval.FORM_WIDTH
    assert narrow.split() == plan.split()
    assert "\n              " in narrow


def test_without_anybody_to_approve_the_run_is_refused(home: Path) -> None:
    chosen = config(execution={"approval": True})
    assert "required before private data is opened" in text.plan(planned(chosen))
    with pytest.raises(ConfigError, match="neither a terminal nor a Prefect server"):
        request_approval(chosen, None, RunTools(chosen, home), CARD, guarantee_of(chosen), [])


def test_a_run_ends_when_nobody_answers_its_form_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[object] = []
    client = SimpleNamespace(set_flow_run_state=lambda _, state: states.append(state.type.value))
    monkeypatch.setattr(pausing, "APPROVAL_MINUTES", 0)
    monkeypatch.setattr(pausing, "get_client", lambda sync_client: nullcontext(client))
    monkeypatch.setattr(pausing, "_earlier_approval", lambda question: None)
    monkeypatch.setattr(pausing.Answer, "save", classmethod(lambda *_: None))
    monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__ID", str(UUID(int=1)))
    with pytest.raises(
        ApprovalError, match=r"Nobody approved this plan within 0 minutes\. Nothing was spent"
    ):
        pausing.request_approval_in_prefect("this plan", "1", "The plan.", approval.NOTHING)
    assert states == ["PAUSED"]


@pytest.mark.parametrize("released", [False, True])
def test_a_stopped_run_keeps_its_reservation_once_it_has_released(released: bool) -> None:
    """The rest of its budget is its own: a resumed run must be able to pay for its last releases."""
    entries = [
        SimpleNamespace(kind="reserve", run_id="run-1"),
        SimpleNamespace(kind="release", run_id="run-2"),
    ]
    entries += [SimpleNamespace(kind="release", run_id="run-1")] * released
    returned: list[tuple[str, str]] = []
    ledger = SimpleNamespace(history=lambda _: entries, finish=lambda *who: returned.append(who))
    called = SimpleNamespace(dataset="notes", run_id="run-1")
    run: Any = SimpleNamespace(tools=SimpleNamespace(run_name=called, ledger=ledger))
    message = return_reservation(run)
    assert returned == ([] if released else [("notes", "run-1")])
    assert ("wasp abandon run-1" in message) == released
