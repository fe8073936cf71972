"""Numbers in words, as the terminal and the report state them."""

import pytest

from tasks.reporting import text as words


@pytest.mark.parametrize(
    ("seconds", "stated"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (10, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (260, "4 min 20 s"),
        (3599.7, "1 h 0 min"),
        (7290, "2 h 1 min"),
    ],
)
def test_a_duration_is_whole_in_its_unit(seconds: float, stated: str) -> None:
    assert words.duration(seconds) == stated
