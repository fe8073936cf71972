"""77 classes whose names are numbers, described by a file: from four records each to a bundle."""

import random
from itertools import product
from pathlib import Path

import yaml

from tests.support.runs.journey import answers, travel, write_records

THINGS = [
    "card",
    "transfer",
    "login",
    "voucher",
    "machine",
    "refund",
    "debit",
    "app",
    "statement",
    "pot",
    "fee",
]
ISSUES = ("declined", "late", "expensive", "wrong", "unknown", "doubled", "cancelled")
MEANINGS = {str(number): pair for number, pair in enumerate(product(THINGS, ISSUES))}


def record_of(name: str, draw: random.Random) -> str:
    thing, issue = MEANINGS[name]
    return f"Good morning, my {thing} of {draw.randrange(9999)} is {issue}. What can I do now?"


def text_of(name: str, draw: random.Random) -> str:
    thing, issue = MEANINGS[name]
    return (
        f"Since {draw.randrange(9999)} days the {thing} seems {issue}, please explain the reason."
    )


def test_77_numbers_with_descriptions_are_classes(home: Path) -> None:
    folder = home.parent
    write_records(folder, tuple(MEANINGS), 4, record_of)
    lines = [f"{name},a {thing} that is {issue}" for name, (thing, issue) in MEANINGS.items()]
    (folder / "kinds.csv").write_text("\n".join(["label,description", *lines]))
    settings = (
        "--set", "embedder={connector: hashing, model: '', options: {dimension: 256}}",
        "--set", "method.guidance=kernel", "--set", "method.samples=308",
    )  # fmt: skip
    trip = travel(
        home, answers(tuple(MEANINGS), text_of), ("--descriptions", "kinds.csv"), settings
    )
    names = list(map(str, range(77)))
    assert trip.made["classes"] == names
    task = yaml.safe_load((folder / "triage_task.yaml").read_text("utf-8"))
    assert task["labels"][76] == {"name": "76", "description": "a fee that is cancelled"}
    assert (trip.epsilon, trip.run["n_synthetic"]) == (4.0, 308)
    assert any('of the class "17" (a login that is wrong)' in prompt for prompt in trip.prompts)
    header = yaml.safe_load(trip.card.split("---")[1])
    (label,) = (field for field in header["dataset_info"]["features"] if field["name"] == "label")
    assert list(label["dtype"]["class_label"]["names"].values()) == names
    assert "  - `76`: a fee that is cancelled\n" in trip.card
    page = Path(trip.run["report"]).read_text(encoding="utf-8")
    assert page.count("67 further classes") == 2
