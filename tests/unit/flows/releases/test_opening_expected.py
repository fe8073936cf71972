"""Advice about opening private rows: by public numbers and by what was measured."""

import pytest

from connectors.interfaces.errors import ConfigError
from flows.cli import commands
from flows.releases.opening_expected import advice_lines, advice_text, advise, similar_places


def test_few_rows_of_many_classes_stay_closed_and_the_advice_names_what_opens_them() -> None:
    advice = advise(100, 10, 1.0, 1e-5)
    assert (advice.opening, advice.opens, advice.places) == ("none", False, ())
    assert "keep your budget" in advice_lines(advice)[0]
    needed = int(advice_lines(advice)[1].split("open the rows: ")[1].split()[0])
    assert advise(needed, 10, 1.0, 1e-5).opening != "none"
    assert advise(needed - 2, 10, 1.0, 1e-5).opening == "none"


def test_many_rows_open_with_gains_of_measured_places() -> None:
    advice = advise(1000, 10, 1.0, 1e-5)
    assert advice.opening == "cosine"
    assert len(advice.places) == len(similar_places(advice.index, "cosine", 10)) > 0
    assert advice.head[0] <= advice.head[1] <= advice.head[2]
    assert advice.opens
    assert "private.declared_rows: 1000" in advice_text(advice.to_json())


def test_two_classes_are_compared_with_two_classes_where_opening_gained_nothing() -> None:
    advice = advise(300, 2, 1.0, 1e-5)
    assert advice.opening == "cosine"
    assert not advice.opens
    assert "keep your budget" in advice_lines(advice)[-1]


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"rows": None, "classes": 2, "epsilon": 1.0, "delta": 1e-5}, "--rows"),
        ({"rows": 10, "classes": 1, "epsilon": 1.0, "delta": 1e-5}, "--classes"),
        ({"rows": 10, "classes": 2, "epsilon": float("inf"), "delta": 1e-5}, "--epsilon"),
    ],
)
def test_a_number_that_is_missing_or_not_allowed_is_named(numbers: dict[str, float | None], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        commands.advise(None, [], numbers)
