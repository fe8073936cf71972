"""Prompts of a batch are computed once, in whatever parts; the model sees what it would see row by row."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from connectors.interfaces.models import ModelSpec  # noqa: E402
from connectors.interfaces.prompts import Prompt  # noqa: E402
from connectors.models.transformers import prefill as module  # noqa: E402
from connectors.models.transformers.attention import ROOM, SharedPrompts  # noqa: E402
from connectors.models.transformers.model import HfModel  # noqa: E402
from connectors.models.transformers.prefill import can_prefill, prefill  # noqa: E402
from tests.support.models.tiny import ENCODER, save, settings, tokenizer  # noqa: E402
from tests.support.models.tiny import tiny_models as tiny_models  # noqa: E402

SHARED = list(range(10, 50))
ROWS = [
    [*SHARED, 7, 8, 9],
    [*SHARED, 7, 8, 9],
    [*SHARED, *range(60, 90)],
    [*SHARED[:-4], 5],
    [*SHARED, *range(61, 91)],
    [*SHARED, 7, 8, 9],
]
LONG = {**ENCODER, "max_position_embeddings": 512}
FAMILIES = {
    "Qwen2": (True, {"num_key_value_heads": 1}),
    "GPTNeoX": (True, {}),
    "OPT": (True, {"word_embed_proj_dim": 32, "ffn_dim": 64}),
    "Gemma": (True, {"head_dim": 16, "num_key_value_heads": 1}),
    "Mistral": (False, {"sliding_window": 8, "num_key_value_heads": 1}),
    "Gemma2": (False, {"head_dim": 16, "sliding_window": 8, "num_key_value_heads": 1}),
    "Bloom": (False, {}),
    "Mamba": (False, {}),
}
"""For each family: if its prompts are computed here, and its further settings."""


def opened(folder: Path, **options) -> HfModel:
    return HfModel.from_spec(ModelSpec("tiny", "hf", str(folder), {"top_p": 0.9, **options}))


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> dict[str, Path]:
    import transformers

    folder = tmp_path_factory.mktemp("families")
    words = tokenizer()
    folders = {}
    for family, (_, more) in FAMILIES.items():
        values = settings(words, "bos", "eos", "pad", **LONG, **more)
        config = getattr(transformers, f"{family}Config")(**values)
        writer = getattr(transformers, f"{family}ForCausalLM")
        folders[family] = save(folder / family, writer, config, words)
    return folders


def prompts(per_prompt: int = 3) -> list[Prompt]:
    """Prompts that share a beginning, each for several texts, in an order that separates equal ones."""
    beginning = "Write one positive text about a warm and funny story. " * 2
    return [
        Prompt(f"{beginning}{'Number two. ' * number}", "x", max_tokens=9, seed=10 * number + copy)
        for copy in range(per_prompt)
        for number in range(4)
    ]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("pass_tokens", [0, 32, 10**6])
@pytest.mark.parametrize("shared", [1, 16, 10**6])
def test_the_state_is_that_of_a_padded_batch(kind, pass_tokens, shared, tiny_models, monkeypatch):
    monkeypatch.setattr(module, "PASS_TOKENS", pass_tokens)
    monkeypatch.setattr(module, "MIN_SHARED", shared)
    loaded = opened(tiny_models[kind])._open()
    with torch.inference_mode():
        state = prefill(loaded, ROWS)
        for number, row in enumerate(ROWS):
            alone = loaded.model(input_ids=torch.tensor([row]))
            assert torch.allclose(state.logits[number], alone.logits[0, -1], atol=1e-4)
            for layer, expected in zip(
                state.cache.layers, alone.past_key_values.layers, strict=True
            ):
                stored = layer.keys[number, :, -len(row) :]
                assert torch.allclose(stored, expected.keys[0], atol=1e-4)
    assert [int(row.sum()) for row in state.mask] == [len(row) for row in ROWS]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_no_token_is_computed_twice(kind, tiny_models, monkeypatch):
    loaded = opened(tiny_models[kind])._open()
    real = loaded.model.forward
    computed = []

    def counted(**inputs):
        computed.append(inputs["input_ids"].numel())
        return real(**inputs)

    # The signature decides if the model can be used.
    counted.__signature__ = inspect.signature(real)
    monkeypatch.setattr(loaded.model, "forward", counted)
    monkeypatch.setattr(module, "PASS_TOKENS", 0)
    with torch.inference_mode():
        prefill(loaded, ROWS)
    shared = len(SHARED) - 4
    # The beginning once; then one of three equal rows, two of 34 more tokens, and the shortest.
    assert sum(computed) == shared + 7 + 2 * 34 + 1


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_computed_here_or_left_to_the_library(family, families):
    model = opened(families[family])
    assert can_prefill(model._open()) == FAMILIES[family][0]
    asked = prompts()
    whole = model.complete(asked)
    assert len({answer.text for answer in whole}) > 6
    assert opened(families[family], batch=1).complete(asked) == whole
    assert opened(families[family]).complete(asked[::-1])[::-1] == whole


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.0}, {"no_repeat_ngram_size": 2}])
def test_texts_are_those_of_the_library_s_own_loop(kind, options, tiny_models, monkeypatch):
    model = opened(tiny_models[kind], **options)
    asked = [
        replace(prompt, end=" " if number % 2 else "") for number, prompt in enumerate(prompts())
    ]
    ours = model.complete(asked)
    monkeypatch.setattr("connectors.models.transformers.model.can_prefill", lambda _: False)
    assert model.complete(asked) == ours


@pytest.mark.parametrize("family", [name for name, (ours, _) in FAMILIES.items() if ours])
@pytest.mark.parametrize("per_prompt", [1, 3])
def test_rows_that_share_a_prompt_get_the_texts_of_rows_with_their_own(
    family, per_prompt, families
):
    model = opened(families[family])
    loaded = model._open()
    assert loaded.shares_prompts
    # More tokens than a cache has free columns at first, and rows that end long before the others.
    asked = [
        replace(prompt, max_tokens=100 if number % 3 else 5 + number)
        for number, prompt in enumerate(prompts(per_prompt))
    ]
    shared = model.complete(asked)
    assert max(answer.tokens_out for answer in shared) > ROOM
    model._loaded = replace(loaded, shares_prompts=False)
    assert model.complete(asked) == shared


def test_a_prompt_that_no_row_continues_is_dropped(tiny_models):
    loaded = opened(tiny_models["llama"])._open()
    with torch.inference_mode():
        state = prefill(loaded, [ROWS[2], ROWS[3], ROWS[4]])
        shared = SharedPrompts(state.cache, state.mask, [0, 0, 1, 2, 1])
        _, pairs, _, size = state.cache.layers[0].keys.shape
        query = torch.randn(5, pairs, 2, size)
        before = shared.attend(0, query, 0.5)
        shared.select([1, 3])
        after = shared.attend(0, query[[1, 3]], 0.5)
    assert len(shared._padded) == 2
    for whole, left in zip(before, after, strict=True):
        assert torch.allclose(whole[[1, 3]], left, atol=1e-5)


def test_a_model_that_keeps_its_arguments_to_itself_keeps_the_library_s_attention(
    tiny_models, monkeypatch
):
    model = opened(tiny_models["llama"])
    asked = prompts()
    ours = model.complete(asked)
    attention = type(model._open().model.model.layers[0].self_attn)
    real = attention.forward

    def deaf(self, *inputs, visited=None, **arguments):
        return real(self, *inputs, **arguments)

    monkeypatch.setattr(attention, "forward", deaf)
    other = opened(tiny_models["llama"])
    assert not other._open().shares_prompts
    assert other._open().model.config._attn_implementation == "sdpa"
    assert other.complete(asked) == ours


def test_t5_is_left_to_the_library(tiny_models):
    assert not can_prefill(opened(tiny_models["t5"])._open())
