"""A masked language model varies texts: reproducibly, in any batch, and only where masks were."""

import pickle
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Cloze, Prompt
from connectors.models.base.registry import open_model
from connectors.models.transformers.fill_mask import FillMaskModel
from tests.support.models.tiny import ENCODER, SENTENCES, save, save_gpt2, settings, tokenizer

HERE = {"dtype": "float32", "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertForMaskedLM

    words = tokenizer()
    words.add_special_tokens({"mask_token": "<mask>"})
    ends = [("<s>", words.bos_token_id), ("</s>", words.eos_token_id)]
    words.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=ends
    )
    sizes = ENCODER | {"num_attention_heads": 4, "max_position_embeddings": 64}
    config = BertConfig(**settings(words, "pad", **sizes))
    return save(tmp_path_factory.mktemp("masked"), BertForMaskedLM, config, words)


def model(folder: Path, **options: object) -> FillMaskModel:
    opened = open_model(ModelSpec("filler", "fill_mask", str(folder), HERE | options))
    assert isinstance(opened, FillMaskModel)
    return opened


def gaps(mask: float = 0.4, rounds: int = 2, copies: int = 1) -> list[Cloze]:
    return [
        Cloze("ask", "", seed=seed, source=source, blanked="_", mask=mask, rounds=rounds)
        for seed in range(copies)
        for source in SENTENCES
    ]


def test_a_variation_is_the_same_alone_in_any_batch_and_in_another_process(folder: Path) -> None:
    asked = gaps(copies=2)
    together = [entry.text for entry in model(folder).complete(asked)]
    alone = [model(folder, batch=1).complete([entry])[0].text for entry in asked]
    moved = [
        entry.text for entry in pickle.loads(pickle.dumps(model(folder))).complete(asked[::-1])
    ][::-1]
    assert together == alone == moved
    assert len(set(together)) == len(together)


def beginning(first: str, other: str) -> int:
    """Return how many characters two texts have in common from their start."""
    return next(
        (n for n, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), len(first)
    )


def test_only_masked_tokens_change_and_never_into_special_ones(folder: Path) -> None:
    words = tokenizer()
    for asked, answer in zip(
        gaps(0.3, 1), model(folder, top_k=50).complete(gaps(0.3, 1)), strict=True
    ):
        before = words(asked.source, add_special_tokens=False)["input_ids"]
        assert answer.finish_reason == "stop"
        assert answer.tokens_out == len(before)
        assert "<" not in answer.text
        assert answer.text != asked.source
    few = (
        model(folder)
        .complete([Cloze("ask", "", source=SENTENCES[1], blanked="_", mask=0.01, rounds=1)])[0]
        .text
    )
    same = beginning(few, SENTENCES[1]) + beginning(few[::-1], SENTENCES[1][::-1])
    assert len(SENTENCES[1]) - 12 <= same < len(SENTENCES[1]) + 2


def test_temperature_zero_draws_the_likeliest(folder: Path) -> None:
    sure = model(folder, temperature=0.0)
    whole = [
        Cloze("ask", "", seed=s, source=SENTENCES[0], blanked="_", mask=1e-9, rounds=1)
        for s in range(40)
    ]
    texts = {entry.text for entry in sure.complete(whole)}
    assert 1 < len(texts) <= 30, (
        "one token is masked; which one differs, what is drawn there does not"
    )


def test_it_keeps_answers_as_they_come_and_writes_nothing_new(folder: Path) -> None:
    stored: dict[int, str] = {}
    asked = [Prompt("Write.", "a"), *gaps()]
    answers = model(folder).complete(
        asked, lambda position, answer: stored.update({position: answer.text})
    )
    assert answers[0].finish_reason == "error"
    assert "only fills gaps" in answers[0].error
    assert stored == {position: answer.text for position, answer in enumerate(answers)}


def test_a_long_text_is_cut_to_what_the_model_holds(folder: Path) -> None:
    long = Cloze("ask", "", source=" ".join(SENTENCES), blanked="_", max_tokens=1000)
    assert model(folder).complete([long])[0].tokens_out == 60
    assert model(folder, max_tokens=10).complete([long])[0].tokens_out == 10


def test_a_text_without_a_token_is_an_error_and_not_a_copy(folder: Path) -> None:
    assert (
        model(folder).complete([Cloze("ask", "", source="", blanked="_")])[0].finish_reason
        == "error"
    )


def test_options_that_mean_nothing_here_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no option 'stop'"):
        model(folder, stop=["x"])
    with pytest.raises(FinalError):
        model(save_gpt2(tmp_path / "gpt2")).complete(gaps())
    assert model(folder).identity != model(folder, temperature=0.5).identity
