"""Training on private rows: charged to the ledger first, kept in the zone, silent about their number, reproducible."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import BudgetError, PrivateInputError
from flows.config.files import check_config
from flows.engine.prepare import Prepared, prepare
from flows.methods.only_private.config import OnlyPrivateConfig
from flows.methods.only_private.flow import OnlyPrivateRun
from flows.runtime.manifest import RunManifest
from tasks.private.exposure import train as plain_train
from tasks.private.exposure.step import train_on_private
from tests.support.data.short_texts import Row, rows, save_rows
from tests.support.runs.pipeline import values
from tests.support.runs.prepared_run import lift_cap


def opened(folder: Path, private: list[Row] | None = None, **changes: Any) -> Prepared:
    where = save_rows(folder / "rows.jsonl", private or rows(40, seed=1))
    chosen = values("only_private", private=where) | changes
    return lift_cap(
        prepare(
            "only_private", check_config(OnlyPrivateConfig, chosen, "the test"), folder / "home"
        )
    )


def run_of(prepared: Prepared) -> OnlyPrivateRun:
    return OnlyPrivateRun(prepared, RunManifest(prepared.tools.artifacts, {}), 0.0)


def trained(run: Prepared) -> dict[str, Any]:
    run.tools.ledger.reserve(run.tools.run_name.dataset, run.plan, "the test")
    (exposure,), made = run.plan.charges, run_of(run)
    student = made.student_spec, run.card.label_names, run.test
    ref, _ = train_on_private(run.tools, made.payer, exposure, *student)
    return run.tools.artifacts.read_json(ref)


def test_the_ledger_is_charged_before_a_row_is_opened_for_the_training(
    tmp_path: Path, monkeypatch
) -> None:
    run = opened(tmp_path)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plain_train, "open_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained(run)
    entries = run.tools.ledger.history(run.tools.run_name.dataset)
    assert [entry.kind for entry in entries][-1] == "expose"
    assert run.tools.ledger.status(run.tools.run_name.dataset).exposed


def test_a_second_training_is_reported_once_and_gives_the_same_student(tmp_path: Path) -> None:
    run = opened(tmp_path)
    first = trained(run)
    (tmp_path / "home" / "runs" / run.tools.run_id / "student.json").unlink()
    (tmp_path / "home" / "private" / "students" / run.tools.run_id / "head.npz").unlink()
    assert trained(run) == first
    kinds = [entry.kind for entry in run.tools.ledger.history(run.tools.run_name.dataset)]
    assert kinds.count("expose") == 1


def test_no_cap_allows_it_and_nothing_is_trained_then(tmp_path: Path) -> None:
    run = opened(tmp_path)
    run.tools.ledger.set_cap(run.tools.run_name.dataset, 100.0, 1e-5, "record", "the owner")
    with pytest.raises(BudgetError):
        trained(run)
    assert not (tmp_path / "home" / "private" / "students").exists()


def test_the_student_lies_in_the_zone_alone_for_the_owner_alone(tmp_path: Path) -> None:
    run = opened(tmp_path)
    result = trained(run)
    location = tmp_path / "home" / "private" / "students" / run.tools.run_id
    assert {path.name for path in location.iterdir()} == {"head.npz", "student.json"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in [location, *location.iterdir()])
    assert not list((tmp_path / "home" / "runs").rglob("head.npz"))
    assert result["not_private"] is True
    assert set(result) == {"not_private", "ledger_entry", "epochs", "best_epoch", "student", "test"}


@pytest.mark.parametrize("number", [24, 60])
def test_neither_progress_nor_the_scores_reveal_how_many_rows_there_are(
    tmp_path: Path, number: int, monkeypatch
) -> None:
    run = opened(tmp_path, rows(number, seed=1), method={"passes": 3})
    message: list[Any] = []

    def progress(_: object, what: str, total: int) -> Any:
        message.append((what, total))
        return nullcontext(message.append)

    monkeypatch.setattr(type(run.tools), "progress", progress)
    trained(run)
    trained_part = message[message.index(("train on private rows: NOT PRIVATE", 3)) :]
    assert trained_part[:4] == [("train on private rows: NOT PRIVATE", 3), 1, 1, 1]


def test_a_class_that_is_missing_is_reported_to_the_owner_alone(tmp_path: Path) -> None:
    run = opened(tmp_path, [(f"note {n}", "slow_internet") for n in range(9)])
    with pytest.raises(PrivateInputError) as refused:
        trained(run)
    assert "slow_internet" not in str(refused.value)
    assert "PRIVATE-STEP" in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert "slow_internet" in refused.value.details.read_text()


def test_as_published_is_one_pass_of_a_fresh_head_over_all_rows(tmp_path: Path) -> None:
    spec = run_of(
        opened(tmp_path, method={"training": "as_published"}, student={"kind": "finetune"})
    ).student_spec
    assert (spec.epochs, spec.batch, spec.learning_rate) == (1, 16, 2e-5)
    assert (spec.validation_share, spec.head) == (0.0, "random")
