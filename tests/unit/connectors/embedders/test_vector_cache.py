import multiprocessing

import numpy as np
import pytest

from connectors.embedders.vector_cache import VectorCache
from connectors.interfaces.errors import ArtifactError
from wasp.testing import UNICODE

TEXTS = ["a", "", UNICODE, "lone \ud800 surrogate"]


def some(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


@pytest.fixture
def store(tmp_path):
    return VectorCache(tmp_path / "below" / "vectors.db")


def test_what_is_kept_comes_back_bit_for_bit_by_its_place_and_nothing_else(store):
    assert store.find(TEXTS) == {}
    assert not store.file.exists()
    store.keep(TEXTS, some(4))
    found = VectorCache(store.file).find(["other", *TEXTS[::-1]])
    assert sorted(found) == [1, 2, 3, 4]
    assert all(np.array_equal(found[place], some(4)[4 - place]) for place in found)


def test_thousands_are_found_at_once(store):
    texts = [f"text {number}" for number in range(2500)]
    store.keep(texts, some(2500))
    found = store.find(texts[::-1])
    assert np.array_equal(np.stack([found[place] for place in range(2500)]), some(2500)[::-1])


def test_no_text_is_in_the_file(store):
    store.keep(["a sentence that nobody else has written"], some(1))
    assert b"sentence" not in store.file.read_bytes()


def test_the_oldest_go_first(tmp_path):
    store = VectorCache(tmp_path / "v.db", most=2)
    store.keep(["a", "b"], some(2))
    store.keep(["c"], some(1))
    assert sorted(store.find(["a", "b", "c"])) == [1, 2]


def test_a_damaged_file_is_named_with_what_to_do(store):
    store.file.parent.mkdir()
    store.file.write_bytes(b"this is no database at all" * 50)
    for use in (lambda: store.find(["a"]), lambda: store.keep(["a"], some(1))):
        with pytest.raises(ArtifactError, match=r"vectors.db cannot be used.*delete it"):
            use()


def _write(file, number):
    VectorCache(file).keep([f"{number} {i}" for i in range(200)], some(200, number))


def test_processes_write_at_the_same_time(store):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(store.file, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    for number in range(4):
        found = store.find([f"{number} {i}" for i in range(200)])
        assert np.array_equal(np.stack([found[i] for i in range(200)]), some(200, number))
