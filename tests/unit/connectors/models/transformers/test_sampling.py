"""The sampler draws from the model's distribution, after the library's filters."""

import pytest

torch = pytest.importorskip("torch")
from connectors.models.transformers import sampling  # noqa: E402
from connectors.models.transformers.options import HfOptions  # noqa: E402
from connectors.models.transformers.sampling import (  # noqa: E402
    CANDIDATES,
    Gumbel,
    Nucleus,
    filters,
    likeliest,
)

CPU = torch.device("cpu")


def sampler(rows: int = 1, **options):
    chosen = filters(HfOptions(**{"top_p": 1.0, **options}))
    chosen.append(Gumbel(range(1000, 1000 + rows), CPU))
    return chosen


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature):
    # The streams are seeded: this test draws the same numbers each time.
    rows = 20_000
    entry = torch.randn(1, 7, generator=torch.Generator().manual_seed(0))
    ids = torch.zeros(rows, 1, dtype=torch.long)
    drawn = sampler(rows, temperature=temperature)(ids, entry.repeat(rows, 1)).argmax(-1)
    shares = torch.bincount(drawn, minlength=7) / rows
    expected = torch.softmax(entry[0] / temperature, -1)
    assert ((shares - expected).abs() < 5 * (expected * (1 - expected) / rows).sqrt() + 1e-4).all()


def test_rows_and_steps_are_independent_and_a_stream_belongs_to_its_seed():
    flat = torch.zeros(50, 1000)
    ids = torch.zeros(50, 1, dtype=torch.long)
    first = sampler(50)
    draws = [first(ids, flat).argmax(-1) for _ in range(4)]
    assert len({int(token) for step in draws for token in step}) > 150
    again = sampler(50)
    assert all(torch.equal(again(ids, flat).argmax(-1), step) for step in draws)
    alone = Gumbel([1017], CPU)
    assert [int(alone(ids[:1], flat[:1]).argmax()) for _ in range(4)] == [
        int(step[17]) for step in draws
    ]


def test_a_filtered_token_is_never_drawn_however_long_one_draws():
    entry = 3 * torch.randn(200, 3000, generator=torch.Generator().manual_seed(0))
    taken = sampler(200, top_k=5)
    best = entry.topk(5).indices
    for _ in range(50):
        drawn = taken(torch.zeros(200, 1, dtype=torch.long), entry).argmax(-1, keepdim=True)
        assert (best == drawn).any(-1).all()


def test_streams_of_an_accelerator_draw_as_well():
    # A generator of torch replaces that of an accelerator.
    noise = Gumbel([1, 2], CPU)
    noise._on_cpu = False
    noise._streams = [torch.Generator(CPU).manual_seed(seed) for seed in (1, 2)]
    drawn = (-noise(None, torch.zeros(2, 50_000))).exp()
    assert drawn.mean(-1).tolist() == pytest.approx([1, 1], abs=0.05)
    assert not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("size", [1, 7, 512, 513, 5000])
def test_a_nucleus_is_that_of_the_library(size, top_p, spread):
    from transformers import TopPLogitsWarper

    # In double precision sums near top_p do not depend on their order.
    scores = spread * torch.randn(6, size, generator=torch.Generator().manual_seed(size)).double()
    ids = torch.zeros(6, 1, dtype=torch.long)
    ours = Nucleus(top_p)(ids, scores)
    theirs = TopPLogitsWarper(top_p)(ids, scores)
    # Tokens as likely as the last of the library's are ours as well, whichever the sort has put first.
    least = theirs.masked_fill(theirs.isinf(), float("inf")).amin(-1, keepdim=True)
    assert torch.equal(ours.isfinite(), scores >= least)
    assert torch.equal(ours[ours.isfinite()], scores[scores >= least])
    if spread:
        assert torch.equal(ours.isfinite(), theirs.isfinite())


def test_only_rows_that_the_likeliest_tokens_do_not_fill_are_read_whole(monkeypatch):
    flat = torch.linspace(0, 1, 5000)
    scores = torch.stack([flat, 40 * flat, flat.flip(0)])
    read = []
    real = sampling.likeliest

    def counted(rows, number):
        read.append((len(rows), number))
        return real(rows, number)

    monkeypatch.setattr(sampling, "likeliest", counted)
    sizes = Nucleus(0.9)(torch.zeros(3, 1, dtype=torch.long), scores).isfinite().sum(-1).tolist()
    assert read == [(3, CANDIDATES), (2, 5000)]
    assert sizes[0] == sizes[2] > 4000
    assert sizes[1] < 500


def test_the_likeliest_scores_are_those_of_a_sort():
    scores = torch.randn(4, 3000, generator=torch.Generator().manual_seed(0))
    scores[1, :2990] = float("-inf")
    scores[2] = 1.0
    assert torch.equal(likeliest(scores, 50), scores.topk(50).values)
