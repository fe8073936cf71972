"""Complaints of one word, from a file to a bundle."""

import random
from pathlib import Path

from tests.support.runs.journey import answers, travel, write_records

RECORDS = {
    "heart": [
        "Palpitations",
        "syncope",
        "fluttering",
        "angina",
        "Tachycardia",
        "collapse",
        "faint",
    ],
    "breathing": ["Cough", "wheeze", "dyspnoea", "choking", "asthma", "Croup", "hoarseness"],
    "injury": ["Fall", "laceration", "fracture", "sprain", "bruise", "burn", "Cut"],
}
TEXTS = {
    "heart": ("palpitation", "chest pressure", "collapse", "racing heart", "Syncope"),
    "breathing": ("coughing", "wheezing", "Asthma attack", "short of breath", "cough"),
    "injury": ("Wound", "fall", "broken arm", "burns", "laceration"),
}


def test_one_word_is_a_text(home: Path) -> None:
    classes = tuple(RECORDS)

    def record(name: str, draw: random.Random) -> str:
        return draw.choice(RECORDS[name])

    write_records(home.parent, classes, 40, record)
    trip = travel(home, answers(classes, lambda name, draw: draw.choice(TEXTS[name])))
    assert (trip.made["form"], trip.made["words"]) == ("short", 1)
    assert all(row["reason"] is None for row in trip.preview["rows"])
    assert (trip.epsilon, trip.run["n_synthetic"]) == (4.0, 60)
    assert set(trip.texts["text"]) <= {text for texts in TEXTS.values() for text in texts}
    assert all("One word or a few are enough" in prompt for prompt in trip.prompts)
    assert "form short (one word or a few), about 1 word" in trip.card
