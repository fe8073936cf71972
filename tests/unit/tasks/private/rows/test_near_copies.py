# ruff: noqa: RUF001  (texts in other scripts)
"""Private records that nearly repeat a test row, each judged without the others."""

import random
import time

import pytest

from tasks.private.rows.near_copies import MIN_LETTERS, letters_of, nearly_repeats
from tests.support.data import short_texts

WORDS = [
    *short_texts.WORDS,
    *("window", "garden", "river", "morning", "station", "doctor", "pencil", "carpet", "yellow"),
]


def made(seed: int, words: int = 40) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


TEXT = made(1)
ALIKE = {
    "equal": TEXT,
    "case, blanks and punctuation": TEXT.upper().replace(" ", ",\n "),
    "greeting": f"Good morning, {TEXT}",
    "signature": f"{TEXT}\n\nKind regards, A. Person",
    "typing error": TEXT.replace("a", "q", 1),
    "one word": " ".join([*TEXT.split()[:20], "something", *TEXT.split()[21:]]),
    "number": f"{TEXT} number 8",
}
DIFFERENT = {
    "same words, other order": " ".join(random.Random(0).sample(TEXT.split(), 40)),
    "half": " ".join([*TEXT.split()[:20], *made(7).split()[20:]]),
    "other": made(2),
}


@pytest.mark.parametrize("kind", [*ALIKE, *DIFFERENT])
def test_a_near_copy_is_found_and_another_text_is_not(kind: str) -> None:
    others = [f"{TEXT} number 7", *(made(seed) for seed in range(100, 130))]
    text = (ALIKE | DIFFERENT)[kind]
    assert nearly_repeats([made(3), text], others).tolist() == [False, kind in ALIKE]


def test_short_texts_are_copies_only_if_their_letters_are_equal() -> None:
    texts = ["fall", "Fall.", "falls", "chest pain", "Na 138; K 4.2", "胸痛", "??", "?"]
    others = ["FALL", "chest-pain", "Na 138; K 4.1", "胸痛。", "??"]
    copies = nearly_repeats(texts, others)
    assert copies.tolist() == [True, True, False, True, False, True, True, False]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("入院时我们发现手腕骨折。治疗顺利，他星期五出院。" * 6, "入院时我们发现手腕骨折 治疗顺利 他星期五出院" * 6),
        ("جاء المريض إلينا يوم الاثنين وكان لديه ألم في الصدر. ننصح بالراحة وبفحص بعد أسبوعين. " * 2,
         "جاء المريض إلينا يوم الاثنين وكان لديه ألم في الصدر، ننصح بالراحة وبفحص بعد أسبوعين " * 2 + "12"),
    ],
)  # fmt: skip
def test_copies_are_found_in_other_scripts(text: str, other: str) -> None:
    assert nearly_repeats([text], [other]).tolist() == [True]


def test_the_pairs_found_are_those_of_a_comparison_of_all() -> None:
    def runs(text: str) -> set[str]:
        letters = letters_of(text)
        return {letters[start : start + 20] for start in range(len(letters) - 19)}

    draw = random.Random(4)
    base = [made(seed, 30) for seed in range(20)]
    texts = [
        " ".join(word for word in draw.choice(base).split() if draw.random() < 0.93)
        for _ in range(200)
    ]
    others = [
        " ".join(word for word in draw.choice(base).split() if draw.random() < 0.97)
        for _ in range(60)
    ]
    assert all(len(letters_of(text)) >= MIN_LETTERS for text in texts + others)
    known = [runs(text) for text in others]
    expected = [
        any(len(own & other) >= 0.6 * len(own | other) for other in known)
        for own in map(runs, texts)
    ]
    assert 20 < sum(expected) < 180
    assert nearly_repeats(texts, others).tolist() == expected


def test_a_record_is_judged_without_the_others() -> None:
    draw = random.Random(5)
    texts = [
        made(draw.randrange(60)) + draw.choice(["", " by A", " again and again"]) for _ in range(80)
    ]
    others = [made(seed) for seed in range(30)]
    together = nearly_repeats(texts, others).tolist()
    assert together == [bool(nearly_repeats([text], others)[0]) for text in texts]
    assert nearly_repeats([], others).tolist() == []
    assert not nearly_repeats(texts, []).any()


def test_long_and_many_texts_take_seconds() -> None:
    texts = [made(seed, 20_000) for seed in range(6)] + [made(seed, 60) for seed in range(2000)]
    start = time.process_time()
    copies = nearly_repeats(texts, [*texts[:5], *texts[1000:1300]])
    assert time.process_time() - start < 60
    assert copies.sum() >= 305
