"""Plans say where too few texts are left to measure the classifier that selects texts."""

import re

import pytest

from flows.config.files import load_config
from flows.methods.kd_tutor.config import KdTutorConfig
from tests.support.paths import ROOT

DP_SGD = [
    "method.select=dp_sgd",
    "method.training={declared_rows: 290, batch_rows: 50, steps: 30}",
]
ONE_TEACHER = ["discriminator.teachers=1", "discriminator.queries=100", "public=null"]


def with_settings(*changes: str) -> KdTutorConfig:
    """Return the settings of kd_tutor_here, which writes 300 texts, with changes."""
    return load_config(
        KdTutorConfig, ROOT / "deployments" / "configs" / "kd_tutor_here.yaml", list(changes)
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (DP_SGD, r"method.training.declared_rows \(290\): about 10 of 300 texts"),
        (ONE_TEACHER, r"discriminator.teachers \(1\): about 0 of 300 texts"),
    ],
    ids=["DP-SGD", "one teacher"],
)
def test_settings_that_leave_no_text_to_measure_on_are_named(
    changes: list[str], named: str
) -> None:
    (warning,) = with_settings(*changes).warnings
    assert re.match(named, warning)
    assert "Raise method.written" in warning


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [*DP_SGD, "method.written=310"],
        [*ONE_TEACHER, "method.written=620"],
        ["method.select=chance", "class_balance=balanced", "privacy.tutor_epsilon=null"],
        [*DP_SGD, "test=null"],
    ],
    ids=["shipped", "more texts", "more texts, one teacher", "random texts", "no test rows"],
)
def test_other_settings_have_no_such_warning(changes: list[str]) -> None:
    assert with_settings(*changes).warnings == []
