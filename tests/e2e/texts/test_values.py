"""Laboratory lines, from a file to a bundle."""

import random
from pathlib import Path

from tests.support.runs.journey import HASHING, answers, travel, write_records
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import VendorServer

NAMES = {
    "kidney": ("Creatinine", "Urea", "Potassium", "Phosphate", "Uric acid"),
    "liver": ("Bilirubin", "Alkaline phosphatase", "Ammonia", "Albumin", "Gamma globulin"),
    "blood": ("Haemoglobin", "Ferritin", "Reticulocytes", "Platelets", "Transferrin"),
}
USUAL = ("Sodium", "Glucose", "Chloride", "Calcium")


def values_of(separator: str, name: str, draw: random.Random) -> str:
    """Return a line of five values, whose names show the class."""
    chosen = [*draw.sample(NAMES[name], 3), *draw.sample(USUAL, 2)]
    draw.shuffle(chosen)
    return separator.join(f"{value} {draw.uniform(1, 200):.1f} mmol/l H" for value in chosen)


def test_lines_of_values_are_written_charged_and_exported(home: Path) -> None:
    classes = tuple(NAMES)
    write_records(home.parent, classes, 40, lambda name, draw: values_of("; ", name, draw))
    trip = travel(home, answers(classes, lambda name, draw: values_of(", ", name, draw)))
    assert (trip.made["form"], trip.made["words"]) == ("values", 20)
    assert [row["reason"] for row in trip.preview["rows"]] == [None] * len(trip.preview["rows"])
    assert (trip.epsilon, trip.run["n_synthetic"]) == (4.0, 60)
    assert trip.run["accuracy"] > 0.6
    assert all("names with their values and units" in prompt for prompt in trip.prompts)
    assert "form values (names and values), about 20 words" in trip.card
    assert "consecutive words or 5 consecutive values of a private row" in trip.card


def test_lines_that_were_declared_as_prose_name_the_form(home: Path) -> None:
    classes = tuple(NAMES)
    write_records(home.parent, classes, 40, lambda name, draw: values_of("; ", name, draw))
    plan = answers(classes, lambda name, draw: values_of(", ", name, draw))
    with VendorServer(plan=plan) as server:
        model = ("--model", "openai:made-up", "--endpoint", f"{server.url}/v1", "--form", "prose")
        pipeline, folder = Pipeline(home), home.parent
        pipeline.call(
            "init", "triage", "--data", "notes.csv", "--yes", *model, code=0, folder=folder
        )
        shown = pipeline.call("preview", "triage", *HASHING, code=0, folder=folder).stdout
        assert "form: values" in shown
        stopped = pipeline.call("run", "triage", *HASHING, code=1, folder=folder).stderr
    assert "none of its first 24 answers is usable" in stopped
    assert "wasp preview names the limits" in stopped
    assert "The reserved budget was returned." in stopped
    assert pipeline.released("triage") == []
