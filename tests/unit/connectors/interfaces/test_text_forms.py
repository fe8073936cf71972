"""Normalising takes time linear in the length of a text, whatever a row contains."""

import time
import unicodedata

import pytest

from connectors.interfaces.text_forms import normal_form, normalizable
from connectors.security.record_hashes import record_hash
from tasks.keyphrases.phrases import plain_form

MARKS = "a" + "\u0315\u0300" * 200_000
"""Combining marks in the wrong order; sorting them takes minutes."""


@pytest.mark.parametrize("form", [normal_form, plain_form, lambda text: record_hash(b"k" * 32, "", text)])
def test_a_row_of_combining_marks_takes_no_longer_than_others(form) -> None:
    started = time.process_time()
    form(MARKS)
    assert time.process_time() - started < 5


def test_only_long_runs_of_marks_are_changed() -> None:
    text = ("e\u0301" * 20 + "日本語 ") * 100
    assert normalizable(text) == text
    assert normalizable(MARKS[:2000]) == MARKS[:2000]
    changed = normalizable(MARKS)
    assert changed.replace("\u034f", "") == MARKS
    assert normalizable(changed) == changed
    assert len(unicodedata.normalize("NFC", changed)) <= len(changed)
