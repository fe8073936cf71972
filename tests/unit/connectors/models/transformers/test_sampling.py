"""The sampler draws from the model's distribution; its filters are those of transformers, without the padding."""

import pytest

torch = pytest.importorskip("torch")
from connectors.models.transformers.options import HfOptions  # noqa: E402
from connectors.models.transformers.sampling import RowSampler, SamplingRequest, nucleus  # noqa: E402

CPU = torch.device("cpu")


def sampler(rows: int = 1, prompt=(), **options) -> RowSampler:
    requests = [SamplingRequest(i, list(prompt), 10, seed=1000 + i) for i in range(rows)]
    return RowSampler(HfOptions(**{"top_p": 1.0, **options}), requests, CPU, after_prompt=True)


def scores(rows: int, vocabulary: int, spread: float = 3.0):
    return spread * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature):
    # The streams are seeded: this test draws the same numbers each time.
    rows = 20_000
    one = scores(1, 7, 1.0)
    drawn = sampler(rows, temperature=temperature)(torch.zeros(rows, 1, dtype=torch.long), one.repeat(rows, 1)).argmax(
        -1
    )
    shares = torch.bincount(drawn, minlength=7) / rows
    wanted = torch.softmax(one[0] / temperature, -1)
    assert ((shares - wanted).abs() < 5 * (wanted * (1 - wanted) / rows).sqrt() + 1e-4).all()


def test_rows_and_steps_are_independent_and_a_stream_belongs_to_its_seed():
    flat = torch.zeros(50, 1000)
    ids = torch.zeros(50, 1, dtype=torch.long)
    first = sampler(50)
    draws = [first(ids, flat).argmax(-1) for _ in range(4)]
    assert len({int(token) for step in draws for token in step}) > 150
    again = sampler(50)
    assert all(torch.equal(again(ids, flat).argmax(-1), step) for step in draws)
    alone = RowSampler(HfOptions(top_p=1.0), [SamplingRequest(0, [], 10, seed=1017)], CPU, after_prompt=True)
    assert [int(alone(ids[:1], flat[:1]).argmax()) for _ in range(4)] == [int(step[17]) for step in draws]


def test_a_filtered_token_is_never_drawn_however_long_one_draws():
    one = scores(200, 3000)
    taken = sampler(200, top_k=5)
    best = one.topk(5).indices
    for _ in range(50):
        drawn = taken(torch.zeros(200, 1, dtype=torch.long), one).argmax(-1, keepdim=True)
        assert (best == drawn).any(-1).all()


@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("vocabulary", [20, 5000])
@pytest.mark.parametrize("spread", [0.1, 5.0])
def test_nucleus_keeps_what_transformers_keeps(top_p, vocabulary, spread):
    from transformers import TopPLogitsWarper

    given = scores(16, vocabulary, spread)
    theirs = TopPLogitsWarper(top_p)(None, given.clone())
    # The last token may fall on either side by rounding.
    assert ((nucleus(given, top_p).isfinite() != theirs.isfinite()).sum(-1) <= 1).all()


def test_penalties_are_those_of_transformers_where_nothing_is_padded():
    from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

    prompt = [3, 4, 5, 3, 4]
    mine = sampler(1, prompt, temperature=0.0, repetition_penalty=1.7, no_repeat_ngram_size=3)
    ids = torch.tensor([prompt])
    for step in range(30):
        given = scores(1, 12) + step
        theirs = RepetitionPenaltyLogitsProcessor(1.7)(ids, given.clone())
        theirs = NoRepeatNGramLogitsProcessor(3)(ids, theirs)
        ours = mine(ids, given)
        assert torch.equal(ours, theirs)
        ids = torch.cat([ids, torch.tensor([[[3, 4, 5, 6][step % 4]]])], -1)


def test_streams_of_an_accelerator_draw_as_well():
    # A generator of torch stands for that of an accelerator.
    from connectors.models.transformers.sampling import _Noise

    noise = _Noise([1, 2], CPU)
    noise._on_cpu = False
    noise._streams = [torch.Generator(CPU).manual_seed(seed) for seed in (1, 2)]
    drawn = noise.log_exponential(50_000).clone().exp()
    assert drawn.mean(-1).tolist() == pytest.approx([1, 1], abs=0.05)
    assert not torch.equal(drawn[0], drawn[1])
