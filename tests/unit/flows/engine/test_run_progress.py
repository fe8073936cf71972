"""The progress of a run, and the hooks of methods of other packages that read or replace parts of it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from flows.engine.record_of_run import _spending
from flows.engine.run import EARLIER, Run
from flows.engine.run_progress import RunProgress


def run_of(kind: type[Run] = Run) -> Run:
    """Return a run whose progress knows nothing but its own name."""
    run = object.__new__(kind)
    names = {name: f"progress.{name}" for name in EARLIER.values()}
    run.progress = cast(RunProgress, SimpleNamespace(**names))
    return run


@pytest.mark.parametrize(("earlier", "now"), EARLIER.items())
def test_earlier_attributes_of_a_run_work_and_warn(earlier: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"write progress\.{now} instead of {earlier}"):
        assert getattr(run_of(), earlier) == f"progress.{now}"


def test_an_unknown_attribute_of_a_run_is_an_error() -> None:
    with pytest.raises(AttributeError, match="Run has no attribute 'wieghts'"):
        _ = getattr(run_of(), "wieghts")  # noqa: B009 - the name is what is tested


def test_what_a_method_says_it_spent_is_recorded() -> None:
    class Exposing(Run):
        def spent(self) -> list[Any]:
            return ["an exposure"]

    recorded: list[Any] = []
    run = run_of(Exposing)
    run.config = SimpleNamespace(measures_records=False)
    run.progress.record = lambda *values: recorded.append(values)  # type: ignore[method-assign]
    run.record(3, (), {})
    assert recorded == [(3, (), {}, {}, ["an exposure"])]


def test_entries_without_a_known_loss_state_none() -> None:
    charge = object()
    entries = [
        SimpleNamespace(run_id="r", charge=charge),
        SimpleNamespace(run_id="s", charge=charge),
    ]
    progress = SimpleNamespace(tools=SimpleNamespace(run_id="r"), loss=lambda _: float("inf"))
    stated = _spending(cast(RunProgress, progress), cast(Any, entries))
    assert stated["epsilon_spent"] is None
    assert (stated["releases"], stated["releases_charged"]) == (2, 1)
    assert stated["charges"] == (charge, charge)
