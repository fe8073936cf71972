"""Notes in other languages than English, from a file to a bundle."""

import random
from pathlib import Path

import pytest

from tests.support.data.notes import CLASSES, FINDINGS, FRAMES
from tests.support.runs.journey import answers, travel, write_records

LANGUAGES = {"de": "German", "fr": "French", "zh": "Chinese", "ar": "Arabic"}


def note_of(language: str, first: int, name: str, draw: random.Random) -> str:
    """Return a note of two findings of a class; `first`: 0 for records, 1 for other sentences."""
    findings = FINDINGS[language][name].split("|")
    frames = FRAMES[language][first::2]
    gap = "" if language == "zh" else " "
    return gap.join(draw.choice(frames).format(finding) for finding in draw.sample(findings, 2))


@pytest.mark.parametrize(
    "language",
    [
        pytest.param(code, marks=() if code in ("zh", "ar") else pytest.mark.slow)
        for code in LANGUAGES
    ],
)
def test_notes_are_written_in_their_language_and_exported(home: Path, language: str) -> None:
    write_records(home.parent, CLASSES, 30, lambda *of: note_of(language, 0, *of))
    plan = answers(CLASSES, lambda *of: note_of(language, 1, *of))
    trip = travel(home, plan, ("--item", "note"))
    assert trip.made["language"] == language
    assert all(f"Write in {LANGUAGES[language]}." in prompt for prompt in trip.prompts)
    assert [row["reason"] for row in trip.preview["rows"]] == [None] * len(trip.preview["rows"])
    assert trip.epsilon == 4.0
    assert f'language: ["{language}"]' in trip.card
    assert f"- texts: {LANGUAGES[language]} ({language}); form prose (sentences)\n" in trip.card
