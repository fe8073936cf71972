"""Shared parts of the ledger's tests: two independent accountants, charges, and books reached from other processes."""

import math
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from connectors.interfaces.ledger import BudgetPlan, Charge, ReleaseRequest
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.state import GROUP, RELEASING, drawn_releases
from connectors.ledger.tables import OUTPUTS
from tests.support.paths import ROOT

DELTA = 1e-5


def zcdp(events: Sequence[Mapping[str, Any]], delta: float) -> float:
    """The cap check's arithmetic in these tests: zCDP with the textbook conversion."""
    rho = sum(
        event.get("count", 1) * event["sensitivity"] ** 2 / (2 * event["sigma"] ** 2)
        for event in events
    )
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def gdp(events: Sequence[Mapping[str, Any]], delta: float) -> float:
    """An independent and tighter accountant: the exact curve of a composition of Gaussians."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    mu = math.sqrt(
        sum(
            event.get("count", 1) * (event["sensitivity"] / event["sigma"]) ** 2 for event in events
        )
    )

    def excess(epsilon: float) -> float:
        return (
            norm.cdf(mu / 2 - epsilon / mu)
            - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            - delta
        )

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, 500.0, xtol=1e-12))


def gaussian_event(noise_multiplier: float, count: int = 1) -> dict[str, Any]:
    """Releases with real-valued Gaussian noise, as another package may charge them."""
    return {"type": "gaussian", "noise_multiplier": float(noise_multiplier), "count": count}


def laplace_event(epsilon: float, count: int = 1) -> dict[str, Any]:
    """Releases with Laplace noise, each `epsilon`-DP on its own."""
    return {"type": "laplace", "epsilon": float(epsilon), "count": count}


def charge(sigma: float = 10.0, **changed: Any) -> Charge:
    fields: dict[str, Any] = {
        "mechanism": "votes",
        "event": {"type": "gaussian", "sigma": sigma, "sensitivity": 1.0},
        "sensitivity": 1.0,
        "sensitivity_reason": "one record moves one vote",
        "noise_scale": sigma,
        "protects": "record",
        "adjacency": "add_remove",
    }
    return Charge(**{**fields, **changed})


ONE, TWO, THREE = (zcdp([charge().event] * count, DELTA) for count in (1, 2, 3))
EXPOSING = charge(0.0, mechanism="plain", event={"type": "non_private"})


def plan(
    run_id: str = "run-1", releases: int = 2, sigma: float = 10.0, charges: Sequence[Charge] = ()
) -> BudgetPlan:
    return BudgetPlan(run_id, "wasp", DELTA, tuple(charges) or (charge(sigma),) * releases)


def request(
    slot: int = 0, key: str | None = None, run_id: str = "run-1", **changed: Any
) -> ReleaseRequest:
    fields = {"charge": charge(), "dataset": "bank", **changed}
    return ReleaseRequest(
        run_id=run_id, slot=f"votes-{slot}", step_key=key or f"key-{slot}", **fields
    )


def spent(book: PrivacyLedger, dataset: str) -> float:
    charged = [
        entry.event
        for entry in book.history(dataset)
        if entry.kind.removeprefix(GROUP) in RELEASING
    ]
    return zcdp([event for event in charged if event["type"] != "non_private"], DELTA)


def events(book: PrivacyLedger, dataset: str, run_id: str | None = None) -> list[Mapping[str, Any]]:
    drawn = drawn_releases(book.history(dataset))
    return [entry.event for entry in drawn if run_id is None or entry.run_id == run_id]


def output_of(book: PrivacyLedger, dataset: str, number: int) -> bytes:
    query = select(OUTPUTS.c.output).where(OUTPUTS.c.dataset == dataset, OUTPUTS.c.number == number)
    with book._store.read() as db:
        return bytes(db.execute(query).scalar_one())


def never() -> bytes:
    raise AssertionError("drawn twice")


def new_book(url: str) -> PrivacyLedger:
    book = PrivacyLedger(url, zcdp)
    book.register("bank", "fingerprint-1", ["a", "b", "c"], "owner")
    return book


def child(url: str, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start another process that opens the same book as `book` and runs `code`; it prints, and reads lines."""
    head = """
        import sys, time, os
        from tests.support.ledgers import *
        book = PrivacyLedger(sys.argv[1], zcdp)
        def say(*words): print(*words, flush=True)
        def hang(): say("here"); time.sleep(600)
    """
    program = textwrap.dedent(head) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, url, *arguments],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def answers(children: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Wait until all children say 'ready', let them go together and return the last line of each."""
    for each in children:
        assert each.stdout.readline().strip() == "ready"
    for each in children:
        each.stdin.write("go\n")
        each.stdin.flush()
    outputs = [each.communicate(timeout=120)[0] for each in children]
    assert [each.returncode for each in children] == [0] * len(children)
    return [output.strip().splitlines()[-1] for output in outputs]


def kill_where_it_hangs(victim: subprocess.Popen[str]) -> None:
    """Kill -9 a child that has said 'here'."""
    assert victim.stdout.readline().strip() == "here"
    victim.kill()
    assert victim.wait(30) == -signal.SIGKILL
    victim.communicate()
