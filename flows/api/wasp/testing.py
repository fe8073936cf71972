"""Contracts of methods, metrics and language models: base classes for the tests of a package that adds one.

A test class inherits a contract and overrides its fixture. Needs pytest.
"""

import math
import re
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

from connectors.interfaces.models import Completion, LanguageModel
from connectors.interfaces.prompts import Prompt
from flows.config.base import RunConfig
from flows.config.files import load_config
from flows.method import Method
from tasks.accounting.composition import epsilon_of
from tasks.accounting.guarantee import Guarantee
from tasks.metrics.registry import LabelledRows, Metric, MetricInput
from tasks.private.release import Release

FINISH_REASONS = {"stop", "length", "refused", "error", "exhausted"}
UNICODE = "Grüße, 世界! \U0001f600 e\u0301 \u2028 \u202eABC"


class MethodContract:
    """Override `method` and `config`, a file with a configuration of it; for a method on private records."""

    @pytest.fixture
    def method(self) -> Method:
        raise NotImplementedError("override the fixture `method`")

    @pytest.fixture
    def config(self) -> Path:
        raise NotImplementedError("override the fixture `config`")

    @pytest.fixture
    def loaded(self, method: Method, config: Path) -> RunConfig:
        assert issubclass(method.config, RunConfig)
        return load_config(method.config, config)

    @pytest.fixture
    def guarantee(self, method: Method, loaded: RunConfig) -> Guarantee[Release]:
        return method.releases(loaded)

    def test_the_flow_and_the_configuration_have_the_name_of_the_method(
        self, method: Method
    ) -> None:
        flow = method.flow()
        assert flow.name == method.name == getattr(method.config, "flow_name", "")
        assert {"config", "resumes"} <= set(signature(flow.fn).parameters)

    def test_all_releases_together_cost_at_most_epsilon(
        self, guarantee: Guarantee[Release], loaded: RunConfig
    ) -> None:
        events = [charge.event for charge in guarantee.charges]
        assert not events or epsilon_of(events, loaded.privacy.delta) <= loaded.privacy.epsilon * (
            1 + 1e-4
        )
        assert len({release.name for release in guarantee.releases}) == len(guarantee.releases)

    def test_an_attack_proves_no_more_than_a_release_claims(
        self, guarantee: Guarantee[Release]
    ) -> None:
        attacks = [
            case.attack()
            for release in guarantee.releases
            for case in release.audits()
            if case.attack
        ]
        assert [attack.name for attack in attacks if not attack.run(400, 0.9999)["passed"]] == []


class MetricContract:
    """Override `metric`, one that `measure` computes."""

    @pytest.fixture
    def metric(self) -> Metric:
        raise NotImplementedError("override the fixture `metric`")

    def test_the_name_is_in_snake_case(self, metric: Metric) -> None:
        assert re.fullmatch("[a-z][a-z0-9_]*", metric.name)

    def test_the_value_is_a_finite_number_that_stays_the_same(self, metric: Metric) -> None:
        vectors = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)
        texts = LabelledRows([f"text {number}" for number in range(12)], ["a", "b"] * 6, vectors)
        real = texts if metric.needs else LabelledRows([], [], vectors[:0])
        assert metric.measure is not None
        first, second = (metric.measure(MetricInput(texts, real, seed=0)) for _ in range(2))
        assert first == second
        assert first is None or math.isfinite(first)


class LanguageModelContract:
    """Override `model`, and `labels` where the model knows certain labels only.

    `repeats_itself = False` for a model whose answer to one prompt may differ from call to call.
    """

    labels: tuple[str, ...] = ("positive", "negative")
    repeats_itself = True

    @pytest.fixture
    def model(self, tmp_path: Path) -> LanguageModel:
        raise NotImplementedError("override the fixture `model`")

    def prompts(self, count: int = 6) -> list[Prompt]:
        """Different prompts that cycle through the labels."""
        return [
            Prompt(
                text=f"Write one {self.labels[i % len(self.labels)]} text. Number {i}.",
                label=self.labels[i % len(self.labels)],
                description="a short text",
                max_tokens=24,
                seed=i,
            )
            for i in range(count)
        ]

    def test_an_empty_list_gives_an_empty_list(self, model: LanguageModel) -> None:
        stored: list[int] = []
        assert model.complete([], lambda i, _: stored.append(i)) == []
        assert stored == []

    def test_name_and_identity_are_non_empty_strings_that_stay_the_same(
        self, model: LanguageModel
    ) -> None:
        name = model.name
        identity = model.identity
        assert isinstance(name, str)
        assert name
        assert isinstance(identity, str)
        assert identity
        model.complete(self.prompts(2))
        assert (model.name, model.identity) == (name, identity)

    def test_each_prompt_has_one_answer_and_keep_hears_it_once_before_the_return(
        self, model: LanguageModel
    ) -> None:
        prompts = self.prompts()
        stored: list[tuple[int, Completion]] = []
        answers = model.complete(prompts, lambda i, c: stored.append((i, c)))
        assert sorted(i for i, _ in stored) == list(range(len(prompts)))
        assert all(answers[i] == answer for i, answer in stored)
        assert len(answers) == len(prompts)

    def test_answers_are_well_formed(self, model: LanguageModel) -> None:
        for answer in model.complete(self.prompts()):
            assert isinstance(answer, Completion)
            assert isinstance(answer.text, str)
            assert answer.finish_reason in FINISH_REASONS
            assert answer.tokens_in >= 0
            assert answer.tokens_out >= 0
            assert answer.dollars >= 0
            assert bool(answer.error) or answer.finish_reason != "error"

    def test_answers_keep_the_order_of_the_prompts(self, model: LanguageModel) -> None:
        if not self.repeats_itself:
            pytest.skip("answers differ from call to call")
        prompts = self.prompts()
        answers = model.complete(prompts)
        assert model.complete(prompts[::-1]) == answers[::-1]

    def test_prompts_of_every_label_are_answered(self, model: LanguageModel) -> None:
        prompts = self.prompts(2 * len(self.labels))
        answers = model.complete(prompts)
        answered = {
            p.label
            for p, a in zip(prompts, answers, strict=True)
            if a.finish_reason in ("stop", "length")
        }
        assert answered == set(self.labels)

    def test_unicode_in_prompts_and_examples_is_accepted(self, model: LanguageModel) -> None:
        prompt = replace(
            self.prompts(1)[0], text=UNICODE, description=UNICODE, good=(UNICODE,), bad=(UNICODE,)
        )
        (answer,) = model.complete([prompt])
        answer.text.encode("utf-8")
        assert answer.finish_reason in FINISH_REASONS
