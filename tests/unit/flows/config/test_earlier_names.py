"""Methods of other packages that use the names of earlier versions keep working for one minor version."""

from typing import ClassVar

import pytest

from flows.config.base import RunConfig
from flows.config.method import AnyMethod, PlannedCalls, RoundsMethod, SingleRound, VotingScheme
from wasp import extend


@pytest.mark.parametrize("base", [AnyMethod, RoundsMethod, SingleRound])
def test_a_scheme_declared_as_casting_is_the_voting_scheme(base: type[AnyMethod]) -> None:
    class Earlier(base):  # type: ignore[valid-type,misc]
        casting: ClassVar[VotingScheme] = VotingScheme(releases=3, votes=2)

    with pytest.warns(DeprecationWarning, match="write voting instead of casting"):
        assert Earlier().voting == VotingScheme(3, 2)
    assert base().voting.releases == (0 if base is SingleRound else 5)


def test_calls_declared_as_asks_are_the_planned_calls() -> None:
    class Earlier(RunConfig):
        @property
        def asks(self) -> list[PlannedCalls]:
            return [PlannedCalls(("a",), 7)]

    with pytest.warns(DeprecationWarning, match="write planned_calls instead of asks"):
        assert Earlier.model_construct().planned_calls == [PlannedCalls(("a",), 7)]


@pytest.mark.parametrize(("earlier", "now"), extend.EARLIER.items())
def test_earlier_names_of_the_interface_work_and_warn(earlier: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"write {now} instead of {earlier}"):
        assert getattr(extend, earlier) is getattr(extend, now)
