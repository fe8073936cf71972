"""Local transformers models answer as their weights say, each prompt by itself, in any batch."""

import json
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.interfaces import cancellation
from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.traffic import state_of
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.transformers import model as library
from connectors.models.transformers.model import HfModel
from tests.support.models.tiny import tiny_models as tiny_models
from wasp.testing import LanguageModelContract

torch = pytest.importorskip("torch")
KINDS = ("gpt2", "llama", "t5")


def opened(folder: Path, **options) -> HfModel:
    return HfModel.from_spec(ModelSpec("tiny", "hf", str(folder), {"top_p": 1.0, **options}))


def prompts(count: int = 12, max_tokens: int = 12) -> list[Prompt]:
    """Different lengths, so that batches are padded."""
    return [
        Prompt(
            f"Write one text. Number {i}. " * (1 + i % 4),
            "positive",
            max_tokens=max_tokens + i % 3,
            seed=i,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("kind", KINDS, scope="class")
class TestHfModel(LanguageModelContract):
    @pytest.fixture(scope="class")
    def model(self, kind, tiny_models):
        return opened(tiny_models[kind], top_p=0.9)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_leave_a_batch_change_no_other(kind, temperature, tiny_models, monkeypatch):
    model = opened(tiny_models[kind], temperature=temperature)
    ends = [" " if number % 3 == 0 else "" for number in range(12)]
    mixed = [
        replace(prompt, end=end, max_tokens=12) for prompt, end in zip(prompts(), ends, strict=True)
    ]
    whole = model.complete(mixed)
    monkeypatch.setattr(library, "STRETCH", 3)
    assert model.complete(mixed) == whole
    monkeypatch.setattr(library, "_cache_of", lambda *_: {})  # a model whose cache cannot drop rows
    assert model.complete(mixed) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_with_an_end_is_continued_up_to_it_among_others(kind, tiny_models):
    model, plain = opened(tiny_models[kind], temperature=0.0, chat="auto"), prompts(6)
    ends = [
        answer.text[3:5]
        for answer in opened(tiny_models[kind], temperature=0.0, chat="no").complete(plain)
    ]
    mixed = [replace(prompt, end=end or "-") for prompt, end in zip(plain, ends, strict=True)]
    answers = model.complete([*plain, *mixed])
    assert answers[:6] == model.complete(plain)
    for prompt, answer in zip(mixed, answers[6:], strict=True):
        assert prompt.end not in answer.text


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_answers_are_those_of_the_bare_model_one_by_one(kind, tiny_models):
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    family = AutoModelForSeq2SeqLM if kind == "t5" else AutoModelForCausalLM
    bare, words = (
        family.from_pretrained(tiny_models[kind]),
        AutoTokenizer.from_pretrained(tiny_models[kind]),
    )
    asked = prompts()
    answers = opened(tiny_models[kind], temperature=0.0).complete(asked)
    for prompt, answer in zip(asked, answers, strict=True):
        text = prompt.text
        if kind == "llama":
            text = words.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
        ids = words(text, add_special_tokens=kind != "llama", return_tensors="pt")["input_ids"]
        mask = torch.ones_like(ids)
        out = bare.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=prompt.max_tokens,
            do_sample=False,
            pad_token_id=0,
        )
        new = out[0, 1:] if kind == "t5" else out[0, ids.shape[1] :]
        assert answer.text == words.decode(new, skip_special_tokens=True).strip()
        assert (answer.tokens_in, answer.tokens_out) == (ids.shape[1], len(new))
        assert answer.finish_reason == ("stop" if new[-1] == words.eos_token_id else "length")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decoding", [{}, {"top_p": 0.8, "top_k": 40, "no_repeat_ngram_size": 2}])
def test_an_answer_does_not_depend_on_the_batch_it_is_in(kind, decoding, tiny_models, monkeypatch):
    asked = prompts(16)
    whole = opened(tiny_models[kind], **decoding).complete(asked)
    assert opened(tiny_models[kind], batch=1, **decoding).complete(asked) == whole
    assert opened(tiny_models[kind], batch=5, **decoding).complete(asked[::-1])[::-1] == whole
    monkeypatch.setattr(library, "_affordable_tokens", lambda loaded: 120)
    assert opened(tiny_models[kind], **decoding).complete(asked[7:]) == whole[7:]


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_is_on_although_the_model_does_not_say_so(kind, tiny_models):
    saved = json.loads((tiny_models[kind] / "generation_config.json").read_text())
    assert not saved.get("do_sample")
    same = [replace(prompts(1)[0], seed=seed) for seed in range(8)]
    assert len({answer.text for answer in opened(tiny_models[kind]).complete(same)}) > 3
    assert (
        len({answer.text for answer in opened(tiny_models[kind], temperature=0.0).complete(same)})
        == 1
    )


def test_settings_that_came_with_the_model_change_nothing(tiny_models, tmp_path):
    folder = shutil.copytree(tiny_models["gpt2"], tmp_path / "gpt2")
    asked = prompts(4)
    plain = opened(folder, temperature=0.0).complete(asked)
    path = folder / "generation_config.json"
    loud = {
        "do_sample": True,
        "temperature": 3.0,
        "repetition_penalty": 5.0,
        "top_k": 3,
        "max_length": 9,
    }
    path.write_text(json.dumps({**json.loads(path.read_text()), **loud}))
    assert opened(folder, temperature=0.0).complete(asked) == plain


def test_an_end_token_ends_an_answer_and_the_limit_is_reported(tiny_models):
    answers = opened(tiny_models["llama"]).complete(prompts(64, max_tokens=40))
    stopped = [a for a in answers if a.finish_reason == "stop"]
    assert stopped
    assert all("</s>" not in a.text for a in answers)
    assert min(a.tokens_out for a in stopped) < 40
    for prompt, answer in zip(prompts(64, max_tokens=40), answers, strict=True):
        if answer.finish_reason == "length":
            assert answer.tokens_out == prompt.max_tokens


def test_stop_strings_end_an_answer_and_are_not_part_of_it(tiny_models):
    asked = prompts(32, max_tokens=30)
    free = opened(tiny_models["gpt2"], temperature=0.0).complete(asked)
    cut = opened(tiny_models["gpt2"], temperature=0.0, stop=["e"]).complete(asked)
    assert any("e" in a.text for a in free)
    for a, b in zip(free, cut, strict=True):
        assert b.text == a.text.split("e")[0].strip()
        assert (b.finish_reason == "stop") == ("e" in a.text)
        assert b.tokens_out <= a.tokens_out
    assert sum(a.tokens_out for a in cut) < sum(a.tokens_out for a in free)


def test_the_chat_template_is_used_where_there_is_one(tiny_models):
    (auto,) = opened(tiny_models["llama"], temperature=0.0).complete(
        [Prompt("Hello", "x", max_tokens=9)]
    )
    written = Prompt("<s><|user|>Hello</s><|assistant|>", "x", max_tokens=9)
    assert opened(tiny_models["llama"], temperature=0.0, chat="no").complete([written]) == [auto]
    frame = "<s><|user|>{prompt}</s><|assistant|>"
    framed = opened(tiny_models["llama"], temperature=0.0, template=frame)
    assert framed.complete([Prompt("Hello", "x", max_tokens=9)]) == [auto]
    with pytest.raises(FinalError, match="no chat template"):
        opened(tiny_models["gpt2"], chat="yes").complete(prompts(1))


def test_a_prompt_that_does_not_fit_is_refused_or_cut_and_the_others_are_answered(tiny_models):
    asked = [Prompt("far too long " * 400, "x", max_tokens=200, seed=1), *prompts(2)]
    answers = opened(tiny_models["gpt2"]).complete(asked)
    assert [a.finish_reason for a in answers] == ["error", "length", "length"]
    assert "256" in answers[0].error
    (answer, *_) = opened(tiny_models["gpt2"], long_prompt="cut").complete(asked)
    assert answer.finish_reason == "length"
    assert (answer.tokens_in, answer.tokens_out) == (256 - 64, 64)


def test_an_empty_prompt_is_answered(tiny_models):
    for kind in KINDS:
        (answer,) = opened(tiny_models[kind]).complete([Prompt("", "x", max_tokens=5)])
        assert answer.tokens_out >= 1


def test_max_tokens_caps_the_length_of_the_task(tiny_models):
    assert {
        a.tokens_out for a in opened(tiny_models["gpt2"], max_tokens=3).complete(prompts(3))
    } == {3}


def test_after_a_crash_the_missing_answers_are_those_that_would_have_come(tiny_models, tmp_path):
    whole = opened(tiny_models["gpt2"], batch=4).complete(prompts(13))
    heard = []

    def crash(position, answer):
        heard.append(position)
        if len(heard) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Recording(opened(tiny_models["gpt2"], batch=4), CompletionStore(tmp_path)).complete(
            prompts(13), crash
        )
    again = Recording(opened(tiny_models["gpt2"], batch=4), CompletionStore(tmp_path))
    assert again.complete(prompts(13)) == whole
    assert list(again.store.completion_counts(again.identity).values()) == [1] * 13


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_ends_a_batch_between_two_tokens(kind, tiny_models):
    model, heard = opened(tiny_models[kind]), []
    with cancellation.work():
        cancellation.stop()
        with pytest.raises(cancellation.ProcessEnds):
            model.complete(prompts(4), lambda position, _: heard.append(position))
    assert heard == []
    with cancellation.work():  # clears the stop
        assert len(model.complete(prompts(4))) == 4


def test_the_progress_line_names_the_batch_that_is_being_written(tiny_models):
    model, states = opened(tiny_models["gpt2"], batch=4), []
    model.complete(prompts(6), lambda *_: states.append(state_of(model)))
    assert states == ["writing a batch of 4"] * 4 + ["writing a batch of 2"] * 2
    assert state_of(model) == ""


def test_threads_share_a_model(tiny_models):
    model = opened(tiny_models["llama"])
    whole = model.complete(prompts(12))
    barrier = threading.Barrier(3)

    def ask(part):
        barrier.wait()
        return model.complete(prompts(12)[part::3])

    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(ask, range(3)))
    assert [parts[i % 3][i // 3] for i in range(12)] == whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_does_not_fit_the_memory_is_halved(kind, tiny_models, monkeypatch):
    model = opened(tiny_models[kind])
    whole = model.complete(prompts(12))
    real = model._generate
    sizes = []

    def narrow(loaded, batch):
        sizes.append(len(batch))
        if len(batch) > 4:
            raise torch.OutOfMemoryError("out of memory")
        return real(loaded, batch)

    monkeypatch.setattr(model, "_generate", narrow)
    assert model.complete(prompts(12)) == whole
    assert sizes[:2] == [12, 6]
    assert model.complete(prompts(12)) == whole
    assert max(sizes[-4:]) <= 4


def test_memory_is_freed_after_each_call_when_requested(tiny_models):
    model = opened(tiny_models["gpt2"], keep_loaded=False)
    first = model.complete(prompts(3))
    assert model._loaded is None
    assert model.complete(prompts(3)) == first


def test_half_precision_is_another_model(tiny_models):
    half = opened(tiny_models["llama"], dtype="bfloat16")
    assert half.identity != opened(tiny_models["llama"]).identity
    assert half.complete(prompts(2))[0].tokens_out > 0
    assert half._open().model.dtype == torch.bfloat16
    assert opened(tiny_models["llama"])._open().model.dtype == torch.float32


def test_identity_follows_the_content_and_not_the_place_or_the_speed(tiny_models, tmp_path):
    here = opened(tiny_models["gpt2"])
    moved = shutil.copytree(tiny_models["gpt2"], tmp_path / "moved")
    assert opened(moved, batch=3).identity == here.identity
    assert pickle.loads(pickle.dumps(here)).identity == here.identity
    assert opened(moved, temperature=0.7).identity != here.identity
    data = bytearray((moved / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (moved / "model.safetensors").write_bytes(bytes(data))
    assert opened(moved).identity != here.identity


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temprature": 1}, "Did you mean 'temperature'"),
        ({"top_p": 1.5}, "top_p: Input should be less than or equal to 1, got 1.5"),
        ({"temperature": True}, "temperature: Input should be a valid number, got True"),
        ({"top_k": -1}, "top_k: Input should be greater than or equal to 0"),
        (
            {"no_repeat_ngram_size": 1},
            r"no_repeat_ngram_size: Input should be 0 or at least 2, got 1\. Correct it",
        ),
        ({"batch": 0}, "batch: Input should be greater than or equal to 1"),
        ({"chat": True}, 'quotes: "yes" or "no"'),
        ({"dtype": "int8"}, "dtype: Input should be 'auto', 'float32', 'bfloat16' or 'float16'"),
        ({"stop": [""]}, "stop.0: String should have at least 1 character"),
        ({"template": "USER:"}, "must contain {prompt}"),
        ({"keep_loaded": "sure"}, "keep_loaded: Input should be a valid boolean"),
    ],
)
def test_wrong_options_say_what_to_write(options, message, tiny_models):
    with pytest.raises(ConfigError, match=message):
        opened(tiny_models["gpt2"], **options)


@pytest.mark.parametrize(
    ("model", "message"), [("./nowhere/at/all", "neither a folder"), ("tests", "no weights")]
)
def test_a_wrong_place_is_reported_before_anything_runs(model, message, tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        HfModel.check_spec(ModelSpec("tiny", "hf", model))


def test_a_device_that_is_not_there_is_reported(tiny_models):
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")
    with pytest.raises(FinalError, match="device 'cuda:7' is not available"):
        opened(tiny_models["gpt2"], device="cuda:7").complete(prompts(1))
