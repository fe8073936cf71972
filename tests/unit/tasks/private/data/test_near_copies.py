"""Sketches of texts find near copies, and tell nothing without the key."""

from __future__ import annotations

import pytest

from tasks.private.data.near_copies import sketch

KEY = bytes(range(32))
TEXTS = [
    f"The {['red', 'blue', 'green'][i % 3]} router number {i} lost its {['signal', 'power'][i % 2]} again at {i * 37}"
    for i in range(60)
]
OTHERS = [f"Please move my payment of {i * 91} to account {i * 17}, thank you" for i in range(60)]


def share(first: list[str], second: list[str]) -> float:
    sketches = [set(sketch(texts, KEY, 4096)) for texts in (first, second)]
    return len(sketches[0] & sketches[1]) / min(map(len, sketches))


@pytest.mark.parametrize(
    ("edit", "least"), [("{0}.", 1.0), ("  {0}", 1.0), ("Copy: {0}", 0.5), ("{0} (sent from a phone)", 0.2)]
)
def test_edited_copies_share_most_of_a_sketch(edit: str, least: float) -> None:
    assert share(TEXTS, [edit.format(text.upper()) for text in TEXTS]) >= least


def test_cut_copies_share_a_part_of_a_sketch() -> None:
    assert share(TEXTS, [text[2:] for text in TEXTS]) > 0.5
    assert share(TEXTS, [text[: len(text) * 4 // 5] for text in TEXTS]) > 0.2


def test_other_texts_share_nothing() -> None:
    assert share(TEXTS, OTHERS) < 0.02


def test_a_sketch_has_a_key_and_a_limit() -> None:
    assert not set(sketch(TEXTS, KEY, 4096)) & set(sketch(TEXTS, bytes(32), 4096))
    assert sketch(TEXTS, KEY, 10) == sketch(reversed(TEXTS), KEY, 4096)[:10]


def test_odd_texts_are_sketched() -> None:
    assert len(sketch(["", "a", "\ud800", "\N{GRINNING FACE}" * 9], KEY, 4096)) > 0
