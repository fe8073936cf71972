"""kill -9 at random lines and moments of the release path: one release per slot, charged once, settled in the end."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from connectors.artifacts.store import Artifacts
from connectors.ledger.state import RELEASING
from flows.engine.spending import RELEASES
from flows.runtime.stores import open_ledger
from tasks.accounting.composition import epsilon_of, second_opinion
from tests.support.ledgers import DELTA
from tests.support.paths import ROOT
from tests.support.runs.prepared_run import good_rows, table


@dataclass(frozen=True)
class Journey:
    """A release path: its module, by folder the slots that it pays for in order, and its other messages."""

    module: str
    slots: dict[str, str]
    further: tuple[str, ...] = ()

    @property
    def charged(self) -> list[str]:
        return list(self.slots.values())


JOURNEYS = {
    "votes": Journey(
        "tests.support.processes.release_path", {"iteration=0": "vote-0", "iteration=1": "vote-1"}
    ),
    "dp_kps": Journey(
        "tests.support.processes.keyphrase_path",
        {"vocabulary": "vocabulary", "density": "density"},
        ("sequences", "texts"),
    ),
}


class Nursery:
    """The process that bears runs and lets them be killed."""

    def __init__(self, journey: Journey, rows: str, log: Path) -> None:
        self.journey, self.rows, self.log = journey, rows, log.open("w")
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("WASP_", "PREFECT_"))
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.processes.release_path"],
            cwd=ROOT, env=environment | {"OMP_NUM_THREADS": "1"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip

    def life(
        self, home: Path, line: int | None = None, after: float | None = None, places: str = ""
    ) -> dict[str, Any]:
        command = {"path": self.journey.module, "home": str(home), "rows": self.rows}
        command |= {"line": line, "after": after, "places": places}
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        failed = [word for word in answer["said"] if word.startswith("failed")]
        assert failed == []
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)
        self.log.close()


@dataclass
class Point:
    """One run that is killed once or twice and then comes to its end."""

    journey: Journey
    home: Path
    seen: dict[str, str] = field(default_factory=dict)

    def take(self, answer: dict[str, Any]) -> None:
        """Compare what got out of this life with what got out of the lives before."""
        for word in answer["said"]:
            kind, _, rest = word.partition(" ")
            if kind in (*self.journey.charged, *self.journey.further):
                assert self.seen.setdefault(kind, rest) == rest, (
                    f"{kind} was drawn twice, with another result"
                )

    def state(self) -> str:
        """Check book and files as a death left them; say in words how far the run had come."""
        book = open_ledger(self.home)
        if not book.datasets():
            assert self.seen == {}
            return "nothing in the book"
        assert book.verify(second=second_opinion) == []
        entries = book.history("desk")
        charged = [entry.slot for entry in entries if entry.kind in RELEASING]
        assert sorted(charged) == sorted(set(charged)), "a slot was charged twice"
        files = [
            self.journey.slots[Path(path).parent.name]
            for path in Artifacts(self.home).finished(RELEASES)
        ]
        assert set(files) <= set(charged), "a release lies there that nobody paid for"
        assert set(self.seen) - set(self.journey.further) <= set(charged), (
            "a release got out that nobody paid for"
        )
        if entries[-1].kind == "finish":
            return "settled"
        if not charged:
            return (
                "registered"
                if not any(entry.kind == "reserve" for entry in entries)
                else "reserved"
            )
        late = "" if set(charged) == set(files) else ", the last not written"
        return f"{len(charged)} of {len(self.journey.slots)} charged{late}"

    def check_end(self) -> None:
        book = open_ledger(self.home)
        status = book.status("desk")
        entries = [entry for entry in book.history("desk") if entry.kind in RELEASING]
        assert [entry.slot for entry in entries] == self.journey.charged
        assert sorted(self.seen) == sorted((*self.journey.charged, *self.journey.further))
        assert (status.open_runs, status.reserved) == ((), 0.0)
        assert status.spent == pytest.approx(
            epsilon_of([entry.event for entry in entries], DELTA), rel=1e-6
        )
        assert book.verify(second=second_opinion) == []
        files = Artifacts(self.home).finished(RELEASES).values()
        assert {file["info"]["ledger_entry"] for file in files} == {entry.hash for entry in entries}


@dataclass
class World:
    """The nursery, a state folder before the run, and the lines that an undisturbed run passes."""

    nursery: Nursery
    template: Path
    places: list[str]
    seconds: float
    folder: Path

    def point(self, number: int, draw: random.Random) -> str:
        """Kill one run once or twice, let it come to its end; return how far it was at its first death."""
        point, states = Point(self.nursery.journey, self.folder / f"home-{number}"), []
        shutil.copytree(self.template, point.home)
        for _ in range(draw.choice((1, 1, 2))):
            answer = self.nursery.life(point.home, **self.death(draw))
            point.take(answer)
            states.append(point.state())
        point.take(self.nursery.life(point.home))
        point.check_end()
        shutil.rmtree(point.home)
        return states[0]

    def death(self, draw: random.Random) -> dict[str, Any]:
        """Choose how to die: after some time, at a line within the releases, or at a line of the program."""
        how = draw.randrange(4)
        if how == 0:
            return {"after": draw.uniform(0, self.seconds)}
        if how < 3:
            first = next(
                n
                for n, location in enumerate(self.places, 1)
                if location.startswith("ledger.release_once")
            )
            return {"line": draw.randint(first, len(self.places))}
        location = draw.choice(sorted(set(self.places)))
        return {
            "line": draw.choice([n for n, item in enumerate(self.places, 1) if item == location])
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from born(tmp_path_factory.mktemp("points"), JOURNEYS["votes"])


@pytest.fixture(scope="module")
def keyphrase_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from born(tmp_path_factory.mktemp("keyphrases"), JOURNEYS["dp_kps"])


def born(folder: Path, journey: Journey) -> Iterator[World]:
    nursery = Nursery(
        journey, table(folder / "rows.parquet", good_rows("private")), folder / "nursery.log"
    )
    try:
        first = folder / "first"
        first.mkdir(mode=0o700)
        message = nursery.life(first, places=str(folder / "places.json"))
        assert message["said"][-1] == "end"
        plain = folder / "plain"
        plain.mkdir(mode=0o700)
        seconds = nursery.life(plain, after=100.0)["seconds"]
        template = folder / "template"
        template.mkdir(mode=0o700)
        shutil.copytree(
            first / "private",
            template / "private",
            ignore=shutil.ignore_patterns("votes", "embeddings", "ledger.head"),
        )
        places = json.loads((folder / "places.json").read_text())["places"]
        yield World(nursery, template, places, seconds, folder)
    finally:
        nursery.close()


def kill_often(world: World, times: int) -> None:
    seed = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(2**32))
    sys.stdout.write(f"KILL_SEED={seed}\n")  # shown when the test fails
    draw = random.Random(seed)
    states = {world.point(number, draw) for number in range(times)}
    assert len(states) >= min(4, times // 5), f"the points lie too close together: {states}"


def test_a_run_killed_at_random_lines_releases_each_vote_once(world: World) -> None:
    kill_often(world, 8)


@pytest.mark.slow
def test_two_hundred_kill_points(world: World) -> None:
    kill_often(world, 200)


def test_dp_kps_killed_at_random_lines_pays_each_part_once_and_gives_the_same_texts(
    keyphrase_world: World,
) -> None:
    kill_often(keyphrase_world, 4)


@pytest.mark.slow
def test_two_hundred_kill_points_of_dp_kps(keyphrase_world: World) -> None:
    kill_often(keyphrase_world, 200)
