"""One PLM writes its share of one iteration. The models here are small scripts; all texts are invented."""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import Completion, keep_nothing
from tasks.writing.cleaning import normalised
from tasks.writing.generate import (
    FAILURE_TYPES,
    ROW_TYPES,
    WriteJob,
    WritingRequest,
    generate,
    tasks_of,
)
from tasks.writing.prompts import Label, TaskCard

CARD = TaskCard(
    name="gardens",
    item="note about a garden",
    labels=(Label("spring"), Label("summer"), Label("winter")),
    attribute="mood",
    values=("calm", "cheerful", "tired"),
)
SENTENCE = "the old gate stands open while a grey cat walks over wet grass and the roses near my wall begin to fade"


def written(prompt):
    """A sentence of its own for every prompt."""
    seed = int(hashlib.sha256(prompt.key.encode()).hexdigest()[:8], 16)
    words = np.random.default_rng(seed).permutation(SENTENCE.split())[:12]
    return f"In {prompt.label} {' '.join(words)}."


@dataclass
class Writer:
    """Answers in batches of `batch`; `spoil` may turn the answer to the n-th prompt of a seed into another."""

    batch: int = 1000
    spoil: object = staticmethod(lambda prompt, answer: answer)
    asked: list = field(default_factory=list)
    name: str = "writer"
    identity: str = "writer-1"

    def complete(self, prompts, keep=keep_nothing):
        self.asked.append(list(prompts))
        answers = {}
        for start in range(0, len(prompts), self.batch):
            positions = range(start, min(start + self.batch, len(prompts)))
            for position in reversed(positions):
                prompt = prompts[position]
                answers[position] = self.spoil(
                    prompt, Completion(written(prompt), "stop", 50, 12, 0.001)
                )
                keep(position, answers[position])
        return [answers[position] for position in range(len(prompts))]


def request(**changes):
    of_job = {
        "card": CARD,
        "plm": "writer",
        "plm_index": 3,
        "iteration": 2,
        "seed": 0,
        "contrast": True,
        "texts_per_prompt": 1,
    }
    job = WriteJob(
        **{name: changes.pop(name, value) for name, value in of_job.items()}, examples_per_prompt=8
    )
    return WritingRequest(
        **({"job": job, "counts": {"spring": 10, "summer": 9, "winter": 10}} | changes)
    )


def share(part, replaced):
    """Spoil about `part` of the answers, by seed."""
    return lambda prompt, answer: (
        replaced(prompt, answer) if prompt.seed % 1000 < 1000 * part else answer
    )


def per_label(rows):
    return {label: int((rows["label"] == label).sum()) for label in CARD.label_names}


def test_exactly_what_was_requested_is_written_with_one_call_and_one_prompt_each():
    model = Writer()
    made = generate(model, request())
    assert per_label(made.rows) == {"spring": 10, "summer": 9, "winter": 10}
    assert [len(asked) for asked in model.asked] == [29]
    labels = [prompt.label for prompt in model.asked[0][:12]]
    assert all(labels.count(label) == 4 for label in CARD.label_names), (
        "a round that is cut short is balanced"
    )
    assert made.failures.empty
    assert (made.shortfall, made.reasons) == ({}, {})
    assert all(
        text.startswith(f"In {label} ")
        for text, label in zip(made.rows["text"], made.rows["label"], strict=True)
    )


def test_rows_and_failures_have_their_columns_and_types_even_when_empty():
    for made in (generate(Writer(), request()), generate(Writer(), request(counts={}))):
        assert {name: str(kind) for name, kind in made.rows.dtypes.items()} == ROW_TYPES
        assert {name: str(kind) for name, kind in made.failures.dtypes.items()} == FAILURE_TYPES


def test_sample_ids_are_unique_over_plms_and_iterations():
    ids = pd.concat(
        generate(Writer(), request(plm_index=k, iteration=t)).rows["sample_id"]
        for k in range(3)
        for t in range(3)
    )
    assert ids.is_unique
    assert ids.iloc[0] == 0
    assert generate(Writer(), request()).rows["sample_id"].tolist() == [
        2_030_000_000 + n for n in range(29)
    ]


def test_the_result_does_not_depend_on_the_batch_size_and_is_the_same_twice():
    spoil = share(0.3, lambda prompt, answer: replace(answer, text="no"))
    first = generate(Writer(batch=1, spoil=spoil), request())
    for batch in (1, 4, 1000):
        again = generate(Writer(batch=batch, spoil=spoil), request())
        pd.testing.assert_frame_equal(again.rows, first.rows)
        pd.testing.assert_frame_equal(again.failures, first.failures)


@pytest.mark.parametrize("change", [{"seed": 1}, {"iteration": 3}, {"plm_index": 4}], ids=str)
def test_another_seed_iteration_or_plm_requests_other_prompts(change):
    keys = set(generate(Writer(), request()).rows["prompt_key"])
    assert keys.isdisjoint(generate(Writer(), request(**change)).rows["prompt_key"])


def test_shortfalls_are_topped_up_to_the_exact_number_and_each_failure_keeps_text_and_reason():
    refusal, steps = "As an AI language model, I must not.", []
    model = Writer(spoil=share(0.4, lambda prompt, answer: replace(answer, text=refusal)))
    made = generate(model, request(attempts=9), steps.append)
    assert per_label(made.rows) == {"spring": 10, "summer": 9, "winter": 10}
    refused = made.failures[made.failures["reason"] == "refusal"]
    assert len(refused) > 3
    assert set(refused["text"]) == {refusal}
    first = (made.failures["attempt"] == 0).sum()
    asked_again = len(model.asked[1])
    assert first * 1.25 <= asked_again < first * 1.25 + 3
    calls = sum(map(len, model.asked))
    assert (made.usage.calls, made.usage.tokens_in, made.usage.tokens_out) == (
        calls,
        50 * calls,
        12 * calls,
    )
    assert made.usage.dollars == pytest.approx(0.001 * calls)
    assert len(made.rows) + len(made.failures) == calls
    assert len({prompt.key for asked in model.asked for prompt in asked}) == calls, (
        "no prompt is asked twice"
    )
    assert steps == [1] * calls


def test_texts_of_one_prompt_share_examples_and_attribute_also_in_top_ups():
    examples = {label: tuple(f"{label} text {n}" for n in range(12)) for label in CARD.label_names}
    model = Writer(spoil=share(0.3, lambda prompt, answer: replace(answer, text="no")))
    generate(model, request(good=examples, bad=examples, texts_per_prompt=4))
    assert len(model.asked) > 1
    asked = [prompt for prompts in model.asked for prompt in prompts]
    assert len({prompt.key for prompt in asked}) == len(asked)
    for label in CARD.label_names:
        of_class = [replace(prompt, seed=0) for prompt in asked if prompt.label == label]
        groups = [of_class[start : start + 4] for start in range(0, len(of_class), 4)]
        assert all(group == [group[0]] * len(group) for group in groups)
        assert len({group[0].text for group in groups}) == len(groups)
        attributes = [group[0].attribute for group in groups[:3]]
        assert sorted(attributes) == sorted(CARD.values), "values go on in turn from draw to draw"


def test_texts_of_one_prompt_name_the_same_drawn_terms():
    words = tuple(f"term{number}" for number in range(60))
    model = Writer()
    generate(model, request(words=words, texts_per_prompt=5, counts={"spring": 10}))
    named = [prompt.attribute for prompt in model.asked[0]]
    assert named[:5] == [named[0]] * 5
    assert named[5:] == [named[5]] * 5
    assert named[0] != named[5]


def test_valid_texts_beyond_the_number_requested_are_surplus_and_the_earlier_ones_stay():
    model = Writer(
        spoil=lambda prompt, answer: replace(answer, text="no") if len(model.asked) == 1 else answer
    )
    made = generate(model, request(counts={"spring": 8}))
    assert len(made.rows) == 8
    assert made.reasons == {"too_short": 8, "surplus": 2}
    assert made.rows["prompt_key"].tolist() == [prompt.key for prompt in model.asked[1][:8]]


def test_a_model_that_repeats_itself_leaves_a_recorded_shortfall_and_no_copies():
    model = Writer(
        spoil=lambda prompt, answer: replace(
            answer, text=f"The same old story of the {prompt.label} garden."
        )
    )
    made = generate(model, request(attempts=2))
    assert len(made.rows) == made.rows["text"].nunique() == 3
    assert made.shortfall == {"spring": 9, "summer": 8, "winter": 9}
    assert set(made.reasons) == {"duplicate"}
    assert len(model.asked) == 3


def test_what_the_data_set_already_holds_is_not_taken_again():
    old = generate(Writer(), request()).rows["text"]
    made = generate(Writer(), request(earlier=frozenset(normalised(text.upper()) for text in old)))
    assert made.reasons["duplicate"] == 29
    assert set(made.rows["text"]).isdisjoint(old)
    assert made.shortfall == {}


@pytest.mark.parametrize(
    ("finish", "reason"), [("error", "error"), ("refused", "refusal"), ("exhausted", "exhausted")]
)
def test_failed_requests_are_failures_with_their_reason_and_a_cut_text_is_marked(finish, reason):
    failed = Completion("", finish, 5, 0, 0.0, "why")
    spoil = share(0.3, lambda prompt, answer: failed)
    made = generate(
        Writer(spoil=lambda prompt, answer: spoil(prompt, replace(answer, finish_reason="length"))),
        request(attempts=9),
    )
    assert made.reasons[reason] >= 3
    assert len(made.rows) == 29
    assert set(made.rows["finish_reason"]) == {"length"}


def test_a_class_that_is_exhausted_gets_no_further_request():
    def spoil(prompt, answer):
        return Completion("", "exhausted") if prompt.label == "winter" else answer

    model = Writer(spoil=spoil)
    made = generate(model, request())
    assert made.shortfall == {"winter": 10}
    assert len(model.asked) == 1


def test_attributes_go_round_and_do_not_hang_together_with_the_class():
    rows = generate(Writer(), request(counts=dict.fromkeys(CARD.label_names, 9))).rows
    table = pd.crosstab(rows["label"], rows["attribute"])
    assert (table.to_numpy() == 3).all()
    assert table.shape == (3, 3)
    small = generate(Writer(), request(counts=dict.fromkeys(CARD.label_names, 1))).rows
    assert small["attribute"].nunique() == 3


def test_examples_come_from_the_class_of_the_prompt_and_differ_between_generations():
    good = {
        label: tuple(f"Fine {label} garden number {n}" for n in range(8))
        for label in CARD.label_names
    }
    bad = {
        label: tuple(f"Poor {label} garden number {n}" for n in range(8))
        for label in CARD.label_names
    }
    model = Writer()
    generate(model, request(good=good, bad=bad))
    prompts = model.asked[0]
    for prompt in prompts:
        assert len(prompt.good) == len(prompt.bad) == 4
        assert set(prompt.good) <= set(good[prompt.label])
        assert set(prompt.bad) <= set(bad[prompt.label])
    assert len({prompt.good for prompt in prompts}) > 20
    generate(model, request(good=good, bad=bad, contrast=False))
    assert all(len(prompt.good) == 8 and not prompt.bad for prompt in model.asked[1])
    model = Writer(spoil=lambda prompt, answer: replace(answer, text="no"))
    generate(model, request(counts={"spring": 2}, good=good, bad=bad, attempts=1))
    first, topped_up = ({(prompt.good, prompt.bad) for prompt in asked} for asked in model.asked)
    assert first.isdisjoint(topped_up)


def test_a_copied_example_does_not_enter_the_data_set():
    good = {"spring": ("Crocuses came up early this year", "Rain all week long in the garden")}
    model = Writer(
        spoil=lambda prompt, answer: replace(answer, text=(*prompt.good, answer.text)[0])
    )
    made = generate(
        model,
        request(
            counts={"spring": 4}, good=good, bad={"spring": ("bad one", "bad two")}, attempts=0
        ),
    )
    assert made.rows.empty
    assert made.reasons == {"copied_example": 4}


def test_requests_that_cannot_be_written_are_refused_before_anything_is_requested():
    model = Writer()
    with pytest.raises(ConfigError):
        generate(model, request(plm_index=100))
    assert model.asked == []


def test_a_model_that_loses_answers_is_stopped():
    class Careless(Writer):
        def complete(self, prompts, keep=keep_nothing):
            return super().complete(prompts, keep)[:-1]

    with pytest.raises(FinalError, match="28 completions for 29 prompts"):
        generate(Careless(), request())


def divided(monkeypatch, job, size):
    """Return the tasks of a job of `size` texts each."""
    monkeypatch.setattr("tasks.writing.generate.TASK_TEXTS", size)
    return tasks_of(job, job.count)


def of_job(job):
    """Return the request of a job, as the step makes it."""
    return WritingRequest(
        job,
        job.texts_of_classes(job.count, job.offset),
        job.texts_of_classes(job.before, job.offset - job.before),
    )


@pytest.mark.parametrize("shares", [(), (0.5, 0.3, 0.2)])
def test_tasks_of_one_job_write_its_texts_with_the_same_first_prompts(monkeypatch, shares):
    job = WriteJob(
        CARD, "writer", count=37, offset=4, plm_index=3, iteration=2, shares=shares, seed=5
    )
    whole = Writer()
    expected = generate(whole, of_job(job))
    tasks = divided(monkeypatch, job, 10)
    assert [task.count for task in tasks] == [10, 10, 10, 7]
    assert [task.part for task in tasks] == ["shard=0", "shard=1", "shard=2", "shard=3"]
    model = Writer()
    made = [generate(model, of_job(task)).rows for task in tasks]
    together = pd.concat(made, ignore_index=True)
    assert per_label(together) == per_label(expected.rows)
    assert sorted(together["text"]) == sorted(expected.rows["text"])
    assert sorted(together["sample_id"]) == sorted(expected.rows["sample_id"])
    assert {prompt.key for asked in model.asked for prompt in asked} == {
        prompt.key for asked in whole.asked for prompt in asked
    }
    assert divided(monkeypatch, job, 37) == [job]


def test_prompts_of_further_rounds_differ_between_tasks(monkeypatch):
    job = WriteJob(CARD, "writer", count=60, plm_index=0, iteration=0)
    model = Writer(spoil=lambda prompt, answer: replace(answer, text="no"))
    made = [generate(model, of_job(task)) for task in divided(monkeypatch, job, 10)]
    keys = [prompt.key for asked in model.asked for prompt in asked]
    assert len(keys) > 60 * 4
    assert len(set(keys)) == len(keys)
    assert sum(sum(part.shortfall.values()) for part in made) == 60
