"""What every connector of a kind promises: base classes of tests.

A test class inherits one of them and overrides its fixture; see tests/unit/connectors/embedders/test_embedders.py.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from connectors.interfaces.embedding import Embedder
from connectors.interfaces.models import Completion, LanguageModel
from connectors.interfaces.prompts import Prompt

FINISH_REASONS = {"stop", "length", "refused", "error", "exhausted"}
UNICODE = "Grüße, 世界! \U0001f600 e\u0301 \u2028 \u202eABC"


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

    def test_an_empty_list_gives_an_empty_list(self, model):
        kept = []
        assert model.complete([], lambda i, c: kept.append(i)) == []
        assert kept == []

    def test_name_and_identity_are_non_empty_strings_that_stay_the_same(self, model):
        name, identity = model.name, model.identity
        assert isinstance(name, str)
        assert name
        assert isinstance(identity, str)
        assert identity
        model.complete(self.prompts(2))
        assert (model.name, model.identity) == (name, identity)

    def test_each_prompt_has_one_answer_and_keep_hears_it_once_before_the_return(self, model):
        prompts = self.prompts()
        kept: list[tuple[int, Completion]] = []
        answers = model.complete(prompts, lambda i, c: kept.append((i, c)))
        assert sorted(i for i, _ in kept) == list(range(len(prompts)))
        assert all(answers[i] == answer for i, answer in kept)
        assert len(answers) == len(prompts)

    def test_answers_are_well_formed(self, model):
        for answer in model.complete(self.prompts()):
            assert isinstance(answer, Completion)
            assert isinstance(answer.text, str)
            assert answer.finish_reason in FINISH_REASONS
            assert answer.tokens_in >= 0
            assert answer.tokens_out >= 0
            assert answer.dollars >= 0
            assert bool(answer.error) or answer.finish_reason != "error"

    def test_answers_keep_the_order_of_the_prompts(self, model):
        if not self.repeats_itself:
            pytest.skip("answers differ from call to call")
        prompts = self.prompts()
        answers = model.complete(prompts)
        assert model.complete(prompts[::-1]) == answers[::-1]

    def test_prompts_of_every_label_are_answered(self, model):
        prompts = self.prompts(2 * len(self.labels))
        answers = model.complete(prompts)
        answered = {p.label for p, a in zip(prompts, answers, strict=True) if a.finish_reason in ("stop", "length")}
        assert answered == set(self.labels)

    def test_unicode_in_prompts_and_examples_is_accepted(self, model):
        prompt = replace(self.prompts(1)[0], text=UNICODE, description=UNICODE, good=(UNICODE,), bad=(UNICODE,))
        (answer,) = model.complete([prompt])
        answer.text.encode("utf-8")
        assert answer.finish_reason in FINISH_REASONS


class EmbedderContract:
    """Override `embedder`; `tolerance` is the largest difference between a text alone and in a batch."""

    tolerance = 1e-5
    texts: tuple[str, ...] = (
        "My card has not arrived yet.",
        "short",
        UNICODE,
        "The film was far too long, and " * 20,
        "",
        "My card has not arrived yet!",
        "What is the exchange rate for euros today?",
    )

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError("override the fixture `embedder`")

    def test_name_and_identity_are_non_empty_strings(self, embedder):
        assert isinstance(embedder.name, str)
        assert embedder.name
        assert isinstance(embedder.identity, str)
        assert embedder.identity == embedder.identity.strip() != ""

    def test_vectors_are_finite_float32_of_the_stated_dimension(self, embedder):
        for texts in (self.texts, []):
            for matrix in (embedder.embed(texts), embedder.embed_alone(texts)):
                assert matrix.dtype == np.float32
                assert matrix.shape == (len(texts), embedder.dimension)
                assert np.isfinite(matrix).all()

    def test_order_is_kept(self, embedder):
        forward = embedder.embed(self.texts)
        backward = embedder.embed(self.texts[::-1])[::-1]
        np.testing.assert_allclose(forward, backward, atol=self.tolerance)
        assert np.abs(forward[0] - forward[6]).max() > 1e-3

    def test_alone_and_together_agree(self, embedder):
        np.testing.assert_allclose(
            embedder.embed(self.texts), embedder.embed_alone(self.texts), atol=self.tolerance, rtol=0
        )

    def test_alone_depends_on_the_text_alone_bit_for_bit(self, embedder):
        whole = embedder.embed_alone(self.texts)
        for left_out in range(len(self.texts)):
            rest = [t for i, t in enumerate(self.texts) if i != left_out]
            assert np.array_equal(embedder.embed_alone(rest), np.delete(whole, left_out, axis=0))
        for i, text in enumerate(self.texts):
            assert np.array_equal(embedder.embed_alone([text])[0], whole[i])

    def test_advance_adds_up_to_the_number_of_texts(self, embedder):
        steps: list[int] = []
        embedder.embed(self.texts, steps.append)
        assert sum(steps) == len(self.texts)
        assert all(n > 0 for n in steps)
