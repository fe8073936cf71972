"""Training under DP-SGD: gradients of single rows, noise, and a count that survives kill -9."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ConfigError, LedgerError, LostArtifactsError
from connectors.interfaces.ledger import BudgetPlan, StoredRelease
from connectors.ledger.ledger import PrivacyLedger
from tasks.accounting.composition import filter_epsilon
from tasks.private.training import dp_train
from tasks.private.training.dp_train import IGNORED, EncodedRows, train_privately
from tasks.private.training.progress import StepsTaken
from tasks.private.training.promise import Training, calibrate_training
from tasks.private.training.recipe import PaidTraining, Recipe
from tasks.private.training.tuned_classifier import vector_head
from tasks.private.training.tuned_writer import lock_training, pay
from tasks.steps.values import ChargedDataset
from tests.support.models.dp_training import gradient_norms, model, recipe, rows, taken
from tests.support.paths import ROOT

pytest.importorskip("opacus")
torch = pytest.importorskip("torch")


def alone(made, data: EncodedRows, row: int) -> list:
    """The gradient of one row by plain back-propagation, as the model computes it."""
    made.zero_grad()
    ids, mask, target = (
        torch.from_numpy(part[row : row + 1]) for part in (data.ids, data.mask, data.targets)
    )
    logits = made(input_ids=ids, attention_mask=mask).logits
    if target.dim() == 1:
        loss = torch.nn.functional.cross_entropy(logits, target)
    else:
        loss = torch.nn.functional.cross_entropy(
            logits[0, :-1], target[0, 1:], ignore_index=IGNORED
        )
    loss.backward()
    return [
        value.grad.clone()
        for value in made.parameters()
        if value.requires_grad and value.grad is not None
    ]


def norm(gradient: list) -> float:
    return float(torch.cat([part.flatten() for part in gradient]).norm())


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
@pytest.mark.parametrize(
    "kind", ["gpt2", "gpt2 lora", "llama", "bert", "roberta", "distilbert", "head of vectors"]
)
def test_norms_of_single_rows_are_those_of_plain_back_propagation(kind, clipping):
    made, data = (
        (vector_head(4, 3, 1), vectors())
        if kind == "head of vectors"
        else (model(kind), rows(kind))
    )
    result = gradient_norms(made, data, clipping)
    made.train()
    expected = [norm(alone(made, data, row)) for row in range(len(data.ids))]
    assert result == pytest.approx(expected, rel=1e-4)
    assert len({round(item, 5) for item in expected}) == len(expected)


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
@pytest.mark.parametrize("at_once", [2, 32])
def test_a_step_moves_by_the_sum_of_gradients_that_were_cut_one_by_one(clipping, at_once):
    made, data = model("llama"), rows("llama")
    made.train()
    total = None
    for row in range(len(data.ids)):
        gradient = alone(made, data, row)
        factor = min(1.0, 0.5 / (norm(gradient) + 1e-6))
        cut = [part * factor for part in gradient]
        total = (
            cut if total is None else [left + other for left, other in zip(total, cut, strict=True)]
        )
    result = step_once(made, data, recipe(clipping=clipping, rows_at_once=at_once))
    for mine, expected in zip(result, total, strict=True):
        assert torch.allclose(mine, expected / 5, atol=1e-6)


def step_once(made, data: EncodedRows, how: Recipe) -> list:
    """The mean gradient that one step gives to the optimizer."""
    stepper = dp_train._Stepper(made, data, how)
    seen = []
    stepper.optimizer.step = lambda: seen.extend(
        value.grad.clone() for value in stepper.parameters.values()
    )
    stepper.step()
    stepper.close()
    return seen


def released(made, data: EncodedRows, plan: Training, **changed) -> list:
    """The mean gradient of one step without noise."""
    return step_once(made, data, recipe(training=plan, **changed))


def vectors(*odd: float) -> EncodedRows:
    values = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    for row, value in enumerate(odd):
        values[row] = value
    return EncodedRows(values, np.ones((6, 1), dtype=np.int64), np.arange(6) % 3)


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
@pytest.mark.parametrize("at_once", [1, 2, 32])
def test_a_row_without_a_finite_gradient_adds_nothing(clipping, at_once):
    plan, odd = Training(1, 6, 6, clip=0.5), vectors(np.nan, np.inf, -np.inf)
    without = EncodedRows(odd.ids[3:], odd.mask[3:], odd.targets[3:])
    changed = {"clipping": clipping, "rows_at_once": at_once}
    result = released(vector_head(4, 3, 0), odd, plan, **changed)
    for mine, expected in zip(
        result, released(vector_head(4, 3, 0), without, plan, **changed), strict=True
    ):
        assert torch.isfinite(mine).all()
        assert torch.allclose(mine, expected, atol=1e-7)


def summed(values: np.ndarray) -> torch.Tensor:
    """The sum of gradients of rows of one class, each cut to 1."""
    number = len(values)
    data = EncodedRows(
        values, np.ones((number, 1), dtype=np.int64), np.zeros(number, dtype=np.int64)
    )
    how = recipe(training=Training(1, number, number, clip=1.0), rows_at_once=1000)
    stepper = dp_train._Stepper(vector_head(values.shape[1], 3, 0), data, how)
    for start in range(0, number, 1000):
        stepper._add(np.arange(start, min(start + 1000, number)))
    return torch.cat([part.flatten() for part in stepper.sums.values()])


def test_the_norm_of_millions_of_weights_is_not_rounded_down():
    """In float32 the squares of this row add up to too little, and the row would be cut to 1.0004 C."""
    values = np.random.default_rng(0).standard_normal((1, 3_000_000)).astype(np.float32)
    assert 1 - 2e-6 < float(summed(values).norm()) <= 1.0


def test_many_rows_of_one_direction_move_the_sum_by_no_more_than_their_number():
    """The bound of CLIP_MARGIN, where rounding adds up most: 3,000 equal rows, and one less."""
    values = np.repeat(
        np.random.default_rng(0).standard_normal((1, 50)).astype(np.float32), 3000, axis=0
    )
    assert 1 - 2e-6 < float((summed(values) - summed(values[1:])).norm()) <= 1.0


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
def test_a_row_moves_the_sum_by_no_more_than_the_clipping_norm_in_float32(clipping):
    plan, drawn = Training(1, 6, 6, clip=1.0), np.random.default_rng(1)
    for size in (1.0, 1e2, 1e4, 1e6):
        values = (size * drawn.standard_normal((6, 4))).astype(np.float32)
        data = EncodedRows(values, np.ones((6, 1), dtype=np.int64), np.arange(6) % 3)
        less = EncodedRows(data.ids[:5], data.mask[:5], data.targets[:5])
        pair = [
            released(vector_head(4, 3, 0), part, plan, clipping=clipping) for part in (data, less)
        ]
        moved = [(left.double() - other.double()) * 6 for left, other in zip(*pair, strict=True)]
        assert norm(moved) <= 1.0


def weights(made) -> np.ndarray:
    return np.concatenate(
        [value.detach().numpy().ravel() for value in made.parameters() if value.requires_grad]
    )


def test_two_trainings_with_equal_seeds_end_with_different_noise(tmp_path):
    ends = [weights(model("gpt2"))]
    for name in ("one", "other"):
        torch.manual_seed(7), np.random.seed(7)
        made = model("gpt2")
        train_privately(made, rows(), recipe(2, sigma=1.0), taken(tmp_path / name))
        ends.append(weights(made))
    assert not np.allclose(*ends[1:])
    assert not np.allclose(*ends[:2])


def test_a_step_that_draws_no_row_is_noise_of_the_right_width():
    none = Training(steps=1, batch_rows=1, declared_rows=10**9, clip=0.5)
    drawn = step_once(model("gpt2"), rows(), recipe(training=none, sigma=2.0))
    assert torch.cat([part.flatten() for part in drawn]).numpy().std() == pytest.approx(
        2.0 * 0.5, rel=0.1
    )


def test_weights_of_equal_shape_get_different_noise_in_a_step():
    none = Training(steps=1, batch_rows=1, declared_rows=10**9, clip=0.5)
    by_shape = {}
    for part in step_once(model("llama"), rows("llama"), recipe(training=none, sigma=2.0)):
        by_shape.setdefault(tuple(part.shape), []).append(part)
    groups = [parts for parts in by_shape.values() if len(parts) > 1]
    assert groups
    for parts in groups:
        assert len({part.numpy().tobytes() for part in parts}) == len(parts)


class Odd(torch.nn.Module):
    """A linear head with a layer that the loss does not use, or whose weight it uses without calling the layer."""

    def __init__(self, hidden: bool):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.extra, self.hidden = (
            torch.nn.Linear(4, 3),
            torch.nn.Linear(4, 3, bias=False),
            hidden,
        )

    def forward(self, input_ids, attention_mask=None):
        scores = self.layer(input_ids)
        if self.hidden:
            scores = scores + torch.nn.functional.linear(input_ids, self.extra.weight)
        return SimpleNamespace(logits=scores)

    def get_output_embeddings(self):
        return None

    get_input_embeddings = get_output_embeddings


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
def test_a_weight_that_the_loss_does_not_use_adds_nothing(clipping):
    plan = Training(1, 6, 6, clip=1.0)
    result = released(Odd(hidden=False), vectors(), plan, clipping=clipping)
    assert [float(part.norm()) > 0 for part in result] == [True, True, False]


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
def test_a_weight_without_gradients_of_single_rows_cannot_be_trained(clipping):
    """Its gradient would not be clipped under ghost clipping, and would be lost with hooks."""
    with pytest.raises(ConfigError, match="measured for the weight 'extra.weight'"):
        released(Odd(hidden=True), vectors(), Training(1, 6, 6, clip=1.0), clipping=clipping)


def test_warnings_of_libraries_are_not_shown(tmp_path, monkeypatch):
    """They may quote the shape of a private batch."""

    def warn(number, rate):
        warnings.warn(f"a batch of {number} rows", stacklevel=1)
        return np.arange(number)

    monkeypatch.setattr(dp_train, "poisson_sample", warn)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        train_privately(model("gpt2"), rows(), recipe(), taken(tmp_path))
    assert shown == []


def test_a_model_learns_and_its_dropout_draws_nothing(tmp_path):
    made, data = model("bert"), rows("bert")
    before = gradient_norms(made, data)
    train_privately(made, data, recipe(60, learning_rate=0.02), taken(tmp_path))
    made.eval()
    guess = made(
        torch.from_numpy(data.ids), attention_mask=torch.from_numpy(data.mask)
    ).logits.argmax(1)
    assert guess.tolist() == data.targets.tolist()
    assert gradient_norms(made, data).mean() < before.mean()


def test_rows_are_neither_shown_nor_serialised():
    assert repr(rows()) == "EncodedRows(hidden)"
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(rows())


# --- the count
def test_a_training_that_goes_on_has_the_weights_and_the_count_it_had(tmp_path):
    whole, data = model("gpt2"), rows()
    train_privately(whole, data, recipe(6), taken(tmp_path / "whole"))
    halves, count = model("gpt2"), taken(tmp_path / "halves")
    train_privately(halves, data, recipe(3, checkpoint_every=1), count)
    again = model("gpt2")
    result = StepsTaken.find(count.store, count.folder, "t")
    assert result.begun == 3
    assert train_privately(again, data, recipe(6), result) == 6
    assert np.allclose(weights(again), weights(whole), atol=1e-6)


def test_steps_that_were_lost_stay_counted_and_are_not_made_up_for(tmp_path):
    count = taken(tmp_path)
    made, data = model("gpt2"), rows()
    train_privately(made, data, recipe(2, checkpoint_every=2), count)
    for _ in range(3):
        count.begin()  # three more began, and the process died
    result = StepsTaken.find(count.store, count.folder, "t")
    assert result.begun == 5
    assert train_privately(model("gpt2"), data, recipe(8), result) == 5
    assert StepsTaken.find(count.store, count.folder, "t").begun == 8


def test_a_count_of_another_payment_is_not_gone_on_with(tmp_path):
    count = taken(tmp_path, "mine")
    assert StepsTaken.find(count.store, count.folder, "another") is None
    assert StepsTaken.find(count.store, "private/trainings/none", "mine") is None
    count.forget()
    assert count.forgotten


def test_a_checkpoint_of_another_payment_is_not_used(tmp_path):
    paid = taken(tmp_path, "mine")
    train_privately(model("gpt2"), rows(), recipe(2, checkpoint_every=1), paid)
    paid.token = "another"
    with pytest.raises(LostArtifactsError, match="belongs to another training"):
        train_privately(model("gpt2"), rows(), recipe(2), paid)


def test_two_processes_do_not_run_one_training(tmp_path):
    with lock_training(tmp_path, "private/trainings/a"):
        again = lock_training(tmp_path, "private/trainings/a")
        with pytest.raises(LedgerError, match="Another process is running this training"):
            again.__enter__()
        with lock_training(tmp_path, "private/trainings/b"):
            pass
    with lock_training(tmp_path, "private/trainings/a"):
        pass


def test_a_payment_that_another_process_makes_meanwhile_is_not_used(tmp_path):
    """The count of its steps belongs to the process that paid."""
    noise = calibrate_training(Training(3, 5, 20), 2.0, 1e-5)
    released_before = StoredRelease(b"{}", reused=True, entry_hash="a")
    ledger = SimpleNamespace(released=lambda *_: False, release_once=lambda *_: released_before)
    tools = SimpleNamespace(run_id="run", ledger=ledger, artifacts=Artifacts(tmp_path))
    with pytest.raises(LedgerError, match="Another process is charging this training"):
        pay(
            tools,
            PaidTraining(ChargedDataset("notes", "fingerprint"), noise, 0.1),
            "payment {}".format,
        )


@pytest.mark.runs
def test_kill_9_at_any_step_keeps_the_count(tmp_path):
    script = textwrap.dedent(f"""
        from pathlib import Path
        from connectors.artifacts.store import Artifacts
        from tasks.private.training.dp_train import train_privately
        from tasks.private.training.progress import StepsTaken
        from tests.support.models.dp_training import gradient_norms, model, recipe, rows, taken
        store = Artifacts(Path({str(tmp_path)!r}))
        found = StepsTaken.find(store, "private/trainings/a", "t") or taken(Path({str(tmp_path)!r}))
        def advance(n):
            print(found.begun, flush=True)
        print("done", train_privately(model("gpt2"), rows(), recipe(40, checkpoint_every=4), found, advance))
    """)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    begun = 0
    for kill_at in (5, 17):
        child = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
        )
        for line in child.stdout:
            begun = int(line)
            if begun >= kill_at:
                os.kill(child.pid, signal.SIGKILL)
                break
        child.wait()
        child.stdout.close()
        stored = StepsTaken.find(Artifacts(tmp_path), "private/trainings/a", "t")
        assert stored.begun >= begun
    lost_at_most = 2 * 5
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    done = int(ended.stdout.split()[-1])
    assert StepsTaken.find(Artifacts(tmp_path), "private/trainings/a", "t").begun == 40
    assert 40 - lost_at_most <= done < 40 + 1


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
@pytest.mark.parametrize("present", [2, 3])
def test_the_mean_divides_by_the_declared_batch_and_not_by_the_rows_that_came(clipping, present):
    """The number of rows that came is private: the same sum of gradients must move the weights by the same amount."""
    made, data = model("llama"), rows("llama")
    few = EncodedRows(data.ids[:present], data.mask[:present], data.targets[:present])
    made.train()
    sums = [
        sum(parts) for parts in zip(*(alone(made, few, row) for row in range(present)), strict=True)
    ]
    how = recipe(clipping=clipping)
    assert how.training.sample_rate == 1
    assert how.training.batch_rows not in (2, 3)
    result = step_once(made, few, replace(how, training=replace(how.training, clip=1e6)))
    for mine, expected in zip(result, sums, strict=True):
        assert torch.allclose(mine, expected / how.training.batch_rows, atol=1e-5)


def test_a_step_is_counted_on_disk_before_a_row_is_looked_at(tmp_path):
    made, count, seen = model("llama"), taken(tmp_path), []
    path = f"{count.folder}/steps.npz"
    made.register_forward_pre_hook(
        lambda *_: seen.append(int(count.store.read_private_arrays(path)["begun"]))
    )
    train_privately(made, rows("llama"), recipe(3), count)
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("present", [2, 5, 40])
def test_rows_are_drawn_at_the_declared_rate_whatever_number_is_present(monkeypatch, present):
    drawn = []
    monkeypatch.setattr(
        dp_train,
        "poisson_sample",
        lambda number, rate: drawn.append((number, rate)) or np.arange(0),
    )
    plan = Training(steps=1, batch_rows=5, declared_rows=20, clip=0.5)
    released(model("gpt2"), rows("gpt2", present), plan)
    assert drawn == [(present, 5 / 20)]


def test_a_training_whose_checkpoint_was_dropped_is_paid_again(tmp_path):
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", filter_epsilon)
    ledger.register("notes", "fingerprint", ["a" * 64], "Ada")
    plan = Training(steps=3, batch_rows=5, declared_rows=20, clip=0.5)
    noise = calibrate_training(plan, 2.0, 1e-5)
    ledger.reserve("notes", BudgetPlan("run", "dp_sgd_gen", 1e-5, (noise.charge,) * 2), "Ada")
    tools = SimpleNamespace(run_id="run", ledger=ledger, artifacts=Artifacts(tmp_path))

    def paid(respend: bool = False):
        training = PaidTraining(ChargedDataset("notes", "fingerprint", respend), noise, 0.1)
        return pay(tools, training, "training of payment {}".format)

    taken, first = paid()
    assert paid()[1] == first
    taken.forget()
    with pytest.raises(
        LostArtifactsError, match="is charged, but its checkpoint is not in the private zone"
    ):
        paid()
    assert paid(respend=True)[1] != first
    assert sum(entry.kind == "release" for entry in ledger.history("notes")) == 2
