import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError, InputError
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.recorded import RecordedModel
from tests.support.paths import ROOT
from wasp.testing import LanguageModelContract

TOPICS = {
    "sea": ["ship", "harbour", "wave", "sail", "anchor"],
    "farm": ["cow", "barn", "tractor", "field", "milk"],
}


def make_file(folder, count=60, name="answers.parquet"):
    rng = np.random.default_rng(1)
    rows = []
    for number in range(count):
        words = list(TOPICS.values())[number % 2]
        text = " ".join(rng.choice(words, 6)) + f" number{number}"
        rows.append(
            {
                "text": text,
                "label": "yes" if number % 4 < 2 else "no",
                "source": "ab"[number % 3 == 0],
            }
        )
    path = folder / name
    pd.DataFrame(rows).assign(seed=[float(number % 5) for number in range(count)]).to_parquet(path)
    return path


def open_model(path, **options):
    return RecordedModel.from_spec(ModelSpec("tape", "recorded", str(path), options))


def prompts(count, label="yes", first=0, **more):
    return [Prompt("write", label, seed=first + number, **more) for number in range(count)]


def texts(answers):
    return [answer.text for answer in answers]


class TestContract(LanguageModelContract):
    labels = ("yes", "no")

    @pytest.fixture
    def model(self, tmp_path):
        return open_model(make_file(tmp_path))


def test_a_file_of_the_package_is_named_like_rows_of_it(tmp_path):
    shipped = open_model("builtin:recordings/terse.parquet")
    (answer,) = shipped.complete(prompts(1, "login_problem"))
    assert answer.text
    copied = open_model(ROOT / "connectors" / "data" / "recordings" / "terse.parquet")
    assert shipped.identity == copied.identity, "the file's content counts, not its address"
    with pytest.raises(InputError, match="recorded completions does not exist"):
        open_model("builtin:recordings/whisper.parquet")
    with pytest.raises(InputError, match="invalid path"):
        open_model("builtin:../secrets.parquet")


def test_a_missing_public_file_names_the_command(tmp_path):
    with pytest.raises(InputError, match="Fetch it with: wasp data plm_outputs --to"):
        open_model(tmp_path / "plm_outputs/imdb/opt-6.7b.parquet")


def test_rows_of_the_label_come_once_each_and_then_the_class_is_exhausted(tmp_path):
    path = make_file(tmp_path)
    answers = open_model(path).complete(prompts(33))
    table = pd.read_parquet(path)
    assert sorted(texts(answers[:30])) == sorted(table.text[table.label == "yes"])
    assert [answer.finish_reason for answer in answers] == ["stop"] * 30 + ["exhausted"] * 3
    assert all(answer.text == "" and "answers.parquet" in answer.error for answer in answers[30:])
    assert answers[0].tokens_in == 1
    assert answers[0].tokens_out == 7


def test_answers_do_not_depend_on_how_prompts_are_split_over_calls(tmp_path):
    path = make_file(tmp_path)
    asked = [
        Prompt(
            "write", ["yes", "no"][n % 2], seed=n, good=(f"ship sail w{n % 7}",), bad=("cow barn",)
        )
        for n in range(40)
    ]
    whole, pieces = open_model(path), open_model(path)
    together = whole.complete(asked)
    apart = [
        answer for start in range(0, 40, 3) for answer in pieces.complete(asked[start : start + 3])
    ]
    assert together == apart


def test_after_a_crash_the_missing_prompts_get_the_rows_they_would_have_had(tmp_path):
    path = make_file(tmp_path)
    asked = [
        Prompt("write", "yes", seed=n, good=(f"ship sail w{n % 7}",), bad=("cow",))
        for n in range(28)
    ]
    expected = open_model(path).complete(asked)
    stored = [n for n in range(28) if n % 3 != 1]
    resumed = open_model(path)
    for n in stored:
        resumed.remember(asked[n], expected[n])
    missing = [n for n in range(28) if n not in stored]
    assert resumed.complete([asked[n] for n in missing]) == [expected[n] for n in missing]


def test_the_same_prompt_gets_the_same_row_and_uses_one_row_only(tmp_path):
    model = open_model(make_file(tmp_path))
    (first,) = model.complete(prompts(1))
    again = model.complete(prompts(1) * 2)
    assert again == [first, first]
    assert len(set(texts(model.complete(prompts(30))))) == 30


def test_remembering_twice_uses_one_row_and_foreign_answers_use_none(tmp_path):
    model = open_model(make_file(tmp_path))
    (prompt,) = prompts(1)
    answer = open_model(make_file(tmp_path)).complete([prompt])[0]
    model.remember(prompt, answer)
    model.remember(prompt, answer)
    model.remember(prompts(1, first=99)[0], Completion("not in the file"))
    assert model.complete([prompt]) == [answer]
    assert len({answer.text for answer in model.complete(prompts(30)) if answer.text}) == 30


@pytest.mark.statistical
def test_rows_move_to_the_good_and_away_from_the_bad_examples(tmp_path):
    path = make_file(tmp_path, 600)
    good, bad = ("the ship left the harbour under sail",), ("a cow and milk in the barn",)
    sea = set(TOPICS["sea"])
    near = open_model(path).complete(prompts(80, good=good, bad=bad))
    far = open_model(path).complete(prompts(80, good=bad, bad=good))
    plain = open_model(path).complete(prompts(80))
    share = [
        np.mean([bool(sea & set(text.split())) for text in texts(answers)])
        for answers in (near, plain, far)
    ]
    assert share[0] > 0.95
    assert 0.2 < share[1] < 0.8
    assert share[2] < 0.05


@pytest.mark.statistical
def test_draws_follow_the_documented_softmax(tmp_path):
    three, softness, draws = ["ship ship", "ship cow", "cow cow"], 0.5, 700
    table = pd.DataFrame(
        {"text": three * draws, "label": np.repeat([f"c{n}" for n in range(draws)], 3)}
    )
    table.to_parquet(tmp_path / "three.parquet")
    asked = [Prompt("w", f"c{n}", good=("ship",), bad=("cow",)) for n in range(draws)]
    drawn = Counter(
        texts(open_model(tmp_path / "three.parquet", softness=softness).complete(asked))
    )
    weights = np.exp(np.array([1.0, 0.0, -1.0]) / softness)
    for text, expected in zip(three, weights / weights.sum(), strict=True):
        assert abs(drawn[text] / draws - expected) < 5 * np.sqrt(expected * (1 - expected) / draws)


def test_identity_distinguishes_file_content_and_options_but_not_the_place(tmp_path):
    path = make_file(tmp_path)
    copy = make_file(tmp_path, name="copy.parquet")
    other = make_file(tmp_path, 62, "other.parquet")
    assert open_model(path).identity == open_model(copy).identity
    assert (
        len(
            {
                model.identity
                for model in (open_model(path), open_model(path, softness=0.1), open_model(other))
            }
        )
        == 3
    )


def test_a_pickled_model_starts_over_with_the_same_draws(tmp_path):
    model = open_model(make_file(tmp_path))
    answers = model.complete(prompts(4))
    assert pickle.loads(pickle.dumps(model)).complete(prompts(4)) == answers


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"text": ["a"]}, {"softnes": 1}, r"'softnes'.*'softness'"),
        (
            {"text": ["a"]},
            {"follow_prompt": True},
            r"option follow_prompt: removed in 0.3\. Remove it",
        ),
        (
            {"text": ["a"]},
            {"where": {"source": "b"}},
            r"option where: removed in 0.3\. Name a file",
        ),
        ({"text": ["a"]}, {"softness": 0}, "softness"),
        (None, {}, r"r\.parquet: .*does not exist"),
        ({"text": [None]}, {}, "no row with a text"),
        (b"no parquet", {}, r"r\.parquet is not a readable Parquet file"),
        ({"words": ["a"]}, {}, r"r\.parquet has no column 'text'. Columns: 'words', 'label'"),
    ],
)
def test_wrong_options_and_files_are_refused_with_names(tmp_path, content, options, message):
    path = tmp_path / "r.parquet"
    if isinstance(content, dict):
        pd.DataFrame(content | {"label": ["b"]}).to_parquet(path)
    elif content:
        path.write_bytes(content)
    with pytest.raises((ConfigError, InputError), match=message):
        open_model(path, **options)


def test_a_label_without_rows_is_refused_before_any_answer(tmp_path):
    model, remaining = open_model(make_file(tmp_path)), []
    with pytest.raises(
        InputError, match=r"answers\.parquet has no row with label 'maybe'.*It has no, yes"
    ):
        model.complete(
            [*prompts(1), *prompts(1, "maybe")], lambda position, answer: remaining.append(answer)
        )
    assert remaining == []
    assert texts(model.complete(prompts(2))) == texts(
        open_model(make_file(tmp_path)).complete(prompts(2))
    )
