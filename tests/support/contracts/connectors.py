"""What every connector of a kind promises: base classes of tests.

A test class inherits one of them and overrides its fixture; see tests/unit/connectors/artifacts/test_store.py.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.artifacts import ArtifactStore, StepKey
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import ArtifactError
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

    def test_no_texts_give_an_empty_matrix(self, embedder):
        for matrix in (embedder.embed([]), embedder.embed_alone([])):
            assert matrix.shape == (0, embedder.dimension)
            assert matrix.dtype == np.float32

    def test_vectors_are_finite_float32_of_the_stated_dimension(self, embedder):
        for matrix in (embedder.embed(self.texts), embedder.embed_alone(self.texts)):
            assert matrix.dtype == np.float32
            assert matrix.shape == (len(self.texts), embedder.dimension)
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


class ArtifactStoreContract:
    """Override `store`: an empty store below tmp_path."""

    key = StepKey("generate", 1, {"samples": 3}, {"prompts": "a" * 64})

    @pytest.fixture
    def store(self, tmp_path: Path) -> ArtifactStore:
        raise NotImplementedError("override the fixture `store`")

    @staticmethod
    def table() -> pd.DataFrame:
        return pd.DataFrame(
            {
                "sample_id": np.arange(3, dtype=np.int64),
                "text": [UNICODE, "", "line\nbreak"],
                "label": ["a", "b", None],
                "weight": [0.1, 1 / 3, np.nan],
                "kept": [True, False, True],
            }
        )

    def test_nothing_is_found_in_an_empty_store(self, store):
        assert store.find("runs/r/a.parquet", self.key) is None
        assert store.why("runs/r/a.parquet", self.key).startswith("computed because")

    def test_a_table_comes_back_as_it_was(self, store):
        ref = store.write_table("runs/r/a.parquet", self.table(), self.key, {"note": "x", "n": 3})
        pd.testing.assert_frame_equal(store.read_table(ref), self.table())
        assert (ref.rows, ref.key, ref.step, ref.path) == (3, self.key.key, "generate", "runs/r/a.parquet")
        assert store.info(ref) == {"note": "x", "n": 3}

    def test_an_empty_table_keeps_its_columns(self, store):
        ref = store.write_table("runs/r/a.parquet", self.table().iloc[:0], self.key)
        assert list(store.read_table(ref).columns) == list(self.table().columns)
        assert ref.rows == 0

    @pytest.mark.parametrize("shape", [(0, 4), (1, 1), (7, 384)])
    def test_a_matrix_comes_back_bit_for_bit(self, store, shape):
        matrix = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        ref = store.write_matrix("embeddings/m.parquet", matrix, self.key)
        back = store.read_matrix(ref)
        assert back.dtype == np.float32
        assert np.array_equal(back, matrix)
        assert back.shape == shape
        assert ref.rows == shape[0]

    def test_a_json_object_comes_back_as_it_was(self, store):
        value = {"b": [1, 2.5, None, {"c": UNICODE}], "a": True}
        assert store.read_json(store.write_json("runs/r/x.json", value, self.key)) == value

    def test_a_folder_comes_back_whole_and_replaces_the_old_one(self, store):
        store.write_folder("runs/r/student", lambda d: (d / "old").write_text("1"), self.key)

        def fill(folder: Path) -> None:
            (folder / "sub").mkdir()
            (folder / "sub" / "weights").write_bytes(b"123")

        ref = store.write_folder("runs/r/student", fill, self.key)
        files = [p.relative_to(store.home / ref.path).as_posix() for p in (store.home / ref.path).rglob("*")]
        assert sorted(files) == ["sub", "sub/weights"]
        assert store.find("runs/r/student", self.key) is not None

    def test_a_finished_artifact_is_found_under_its_key_alone(self, store):
        ref = store.write_table("runs/r/a.parquet", self.table(), self.key)
        assert store.find("runs/r/a.parquet", self.key) == replace(ref, reused=True)
        assert store.why("runs/r/a.parquet", self.key).startswith("reused because")
        other = replace(self.key, version=2)
        assert store.find("runs/r/a.parquet", other) is None
        assert "because its version is now 2" in store.why("runs/r/a.parquet", other)

    def test_a_damaged_or_missing_file_is_not_found_and_not_read(self, store):
        ref = store.write_table("runs/r/a.parquet", self.table(), self.key)
        path = store.home / ref.path
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert store.find(ref.path, self.key) is None
        with pytest.raises(ArtifactError):
            store.read_table(ref)
        path.unlink()
        assert store.find(ref.path, self.key) is None
        with pytest.raises(ArtifactError):
            store.read_table(ref)

    def test_a_lost_folder_is_not_found(self, store):
        ref = store.write_folder("runs/r/student", lambda d: (d / "w").write_text("1"), self.key)
        shutil.rmtree(store.home / ref.path)
        assert store.find(ref.path, self.key) is None

    @pytest.mark.parametrize("path", ["../a.json", "/etc/a.json", "runs/../../a.json", "", "."])
    def test_paths_outside_the_state_folder_are_refused(self, store, path):
        with pytest.raises(ArtifactError):
            store.write_json(path, {}, self.key)
