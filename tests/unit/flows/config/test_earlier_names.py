"""Methods of other packages that use the names of earlier versions keep working for one minor version."""

from typing import ClassVar

import pytest

from flows.api.wasp import extend
from flows.config.base import RunConfig
from flows.config.method import AnyMethod, PlannedCalls, RoundsMethod, SingleRound


@pytest.mark.parametrize("base", [AnyMethod, RoundsMethod, SingleRound])
def test_a_scheme_declared_as_casting_is_the_voting_scheme(base: type[AnyMethod]) -> None:
    class Earlier(base):  # type: ignore[valid-type,misc]
        casting: ClassVar[extend.Casting] = extend.Casting(releases=3, votes=2)

    assert Earlier().voting == extend.VotingScheme(3, 2)
    assert base().voting.releases == (0 if base is SingleRound else 5)


def test_calls_declared_as_asks_are_the_planned_calls() -> None:
    class Earlier(RunConfig):
        @property
        def asks(self) -> list[PlannedCalls]:
            return [PlannedCalls(("a",), 7)]

    assert Earlier.model_construct().planned_calls == [PlannedCalls(("a",), 7)]
