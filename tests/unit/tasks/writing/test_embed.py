import tracemalloc

import numpy as np
import pytest

from connectors.interfaces.errors import FinalError
from tasks.writing import embed
from tasks.writing.embed import embed_blocks, embed_texts


class LetterEmbedder:
    """Counts letters a and b: a small real embedder that remembers its requests."""

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


def test_vectors_come_in_the_order_of_the_texts_and_an_equal_text_is_embedded_once():
    embedder, seen = LetterEmbedder(), []
    vectors = embed_texts(embedder, ["ab", "b", "aab", "b", ""], seen.append)
    assert vectors.tolist() == [[1, 1], [0, 1], [2, 1], [0, 1], [0, 0]]
    assert vectors.dtype == np.float32
    assert sorted(embedder.asked) == ["", "aab", "ab", "b"]
    assert sum(seen) == 5, "progress counts repeated texts too"


def test_blocks_are_the_whole_and_a_text_of_two_blocks_is_embedded_once(monkeypatch):
    monkeypatch.setattr(embed, "BLOCK", 3)
    embedder, seen, texts = LetterEmbedder(), [], ["a", "b", "a", "ab", "b", "bb", "a", "bb"]
    blocks = list(embed_blocks(embedder, texts, seen.append))
    assert [len(block) for block in blocks] == [3, 3, 2]
    assert np.array_equal(np.concatenate(blocks), embed_texts(LetterEmbedder(), texts))
    assert embedder.asked == ["a", "b", "ab", "bb"]
    assert sum(seen) == len(texts)


def test_the_vectors_are_held_once_while_they_are_made(monkeypatch):
    class Wide(LetterEmbedder):
        dimension = 256

        def embed(self, texts, advance=None):
            return np.ones((len(texts), 256), dtype=np.float32)

    monkeypatch.setattr(embed, "BLOCK", 500)
    texts = [str(number) for number in range(10_000)]
    tracemalloc.start()
    vectors = embed_texts(Wide(), texts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert vectors.nbytes < peak < 1.5 * vectors.nbytes


def test_no_texts_give_an_empty_matrix_without_asking():
    embedder = LetterEmbedder()
    assert (
        [block.shape for block in embed_blocks(embedder, [])]
        == [embed_texts(embedder, []).shape]
        == [(0, 2)]
    )
    assert embedder.asked == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[1, 1], [np.nan, 0], [np.inf, 0]], r"'letters'.* 2 of 3 texts.* 1 "),
        *((np.zeros(shape), r"instead of \(3, 2\)") for shape in ((2, 2), (3, 5), (3,))),
    ],
)
def test_vectors_of_another_shape_or_not_finite_are_refused(answer, message):
    with pytest.raises(FinalError, match=message):
        embed_texts(Broken(np.array(answer, dtype=np.float32)), ["a", "b", "c"])
