"""Letters of several pages that an encoder reads in windows: from a file to a bundle."""

import random
from pathlib import Path

from tests.support.runs.journey import answers, travel, write_records

FINDINGS = {
    "heart": "an irregular pulse and a weak heart",
    "skin": "an itching rash and a dark mole",
}
WORDS = [
    *(
        "river",
        "garden",
        "window",
        "station",
        "pencil",
        "morning",
        "carpet",
        "yellow",
        "lamp",
        "table",
    ),
    *(
        "winter",
        "paper",
        "bridge",
        "engine",
        "music",
        "island",
        "letter",
        "corner",
        "bottle",
        "market",
    ),
]
SETTINGS = (
    "--set", "embedder={connector: sentence_transformers, model: embedded, options: {windows: true}}",
    "--set", "method.guidance=kernel", "--set", "method.samples=16",
)  # fmt: skip


def letter_of(words: int, verb: str, name: str, draw: random.Random) -> str:
    """Return a letter of paragraphs whose last sentences show the class."""
    sentences = [
        f"{verb} the {draw.choice(WORDS)} {draw.choice(WORDS)} with a {draw.choice(WORDS)} {draw.choice(WORDS)}."
        for _ in range(words // 8)
    ]
    paragraphs = [" ".join(sentences[start : start + 8]) for start in range(0, len(sentences), 8)]
    return "\n\n".join([*paragraphs, f"{verb} {FINDINGS[name]} in {draw.choice(WORDS)}. " * 6])


def test_letters_are_read_whole_written_and_exported(home: Path) -> None:
    classes = tuple(FINDINGS)
    write_records(home.parent, classes, 10, lambda *of: letter_of(700, "We noted", *of))
    plan = answers(classes, lambda *of: letter_of(350, "Doctors saw", *of))
    trip = travel(home, plan, settings=SETTINGS)
    assert trip.made["form"] == "long"
    assert trip.made["words"] in (700, 800)
    assert trip.epsilon == 4.0
    assert all("It is a whole document of several paragraphs." in text for text in trip.prompts)
    assert trip.texts["text"].str.contains("\n\n").all(), "line breaks are part of the form"
    assert trip.texts["text"].str.split().str.len().min() > 300
    assert "form long (several paragraphs), about" in trip.card
