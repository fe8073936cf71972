import numpy as np
import pytest

from connectors.base import FinalError
from tasks.embed import Memory, embed_texts, memory_of


class LetterEmbedder:
    """Counts letters a and b: a small real embedder that remembers what it was asked."""

    name, identity, dimension = "letters", "letters", 2

    def __init__(self):
        self.asked = []

    def embed(self, texts, advance=None):
        self.asked += texts
        for _ in texts:
            if advance:
                advance(1)
        return np.array([[text.count("a"), text.count("b")] for text in texts], dtype=np.float32)

    def embed_alone(self, texts):
        return self.embed(texts)


class Broken(LetterEmbedder):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def embed(self, texts, advance=None):
        return self.answer


def test_vectors_come_in_the_order_of_the_texts():
    vectors = embed_texts(LetterEmbedder(), ["ab", "b", "aab", "b", ""])
    assert vectors.tolist() == [[1, 1], [0, 1], [2, 1], [0, 1], [0, 0]]
    assert vectors.dtype == np.float32


def test_an_equal_text_is_embedded_once():
    embedder = LetterEmbedder()
    embed_texts(embedder, ["a", "b", "a", "a", "b"])
    assert embedder.asked == ["a", "b"]


def test_progress_counts_every_text_repeated_ones_too():
    seen = []
    embed_texts(LetterEmbedder(), ["a", "b", "a", "a"], seen.append)
    assert sum(seen) == 4


def test_a_text_that_is_remembered_is_not_embedded_again():
    embedder, memory, seen = LetterEmbedder(), Memory(), []
    embed_texts(embedder, ["a", "ab"], memory=memory)
    vectors = embed_texts(embedder, ["b", "ab", "b", "a"], seen.append, memory)
    assert vectors.tolist() == [[0, 1], [1, 1], [0, 1], [1, 0]]
    assert embedder.asked == ["a", "ab", "b"]
    assert sum(seen) == 4


def test_a_memory_forgets_the_oldest_and_gives_nothing_of_its_own_away():
    embedder, memory = LetterEmbedder(), Memory(2)
    embed_texts(embedder, ["a", "b", "ab"], memory=memory)
    embed_texts(embedder, ["ab", "b"], memory=memory)[:] = 9
    assert embed_texts(embedder, ["ab", "b", "a"], memory=memory).tolist() == [[1, 1], [0, 1], [1, 0]]
    assert embedder.asked == ["a", "b", "ab", "a"]


def test_each_embedder_has_a_memory_of_its_own_and_broken_vectors_are_not_remembered():
    assert memory_of("one") is memory_of("one")
    assert memory_of("one") is not memory_of("two")
    memory = Memory()
    with pytest.raises(FinalError, match="infinite"):
        embed_texts(Broken(np.array([[1, np.nan]], dtype=np.float32)), ["a"], memory=memory)
    assert memory.find(["a"]) == {}


def test_no_texts_give_an_empty_matrix_without_asking():
    embedder = LetterEmbedder()
    assert embed_texts(embedder, []).shape == (0, 2)
    assert embedder.asked == []


def test_numbers_that_are_not_finite_are_refused_and_the_embedder_is_named():
    answer = np.array([[1, 1], [np.nan, 0], [np.inf, 0]], dtype=np.float32)
    with pytest.raises(FinalError, match=r"'letters'.* 2 of 3 texts.* 1 "):
        embed_texts(Broken(answer), ["a", "b", "c"])


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (3,)])
def test_a_wrong_shape_is_refused_and_both_shapes_are_said(shape):
    with pytest.raises(FinalError, match=r"instead of \(3, 2\)"):
        embed_texts(Broken(np.zeros(shape, dtype=np.float32)), ["a", "b", "c"])
