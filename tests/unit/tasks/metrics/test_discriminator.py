"""What is said of the accuracy of a discriminator."""

import pytest

from tasks.metrics.discriminator import DiscriminatorTest
from tasks.metrics.usefulness import Accuracy


@pytest.mark.parametrize(("right", "warns"), [(45, True), (55, True), (70, False)])
def test_a_classifier_near_chance_is_warned_about(right: int, warns: bool) -> None:
    measured = DiscriminatorTest(Accuracy(right, 100))
    assert bool(measured.warnings) == warns
    assert "50 test rows and 50 generated texts" in measured.sentence
    assert measured.values == {
        "discriminator_accuracy": right / 100,
        "teachers_accuracy": None,
        "noisy_teachers_accuracy": None,
    }
    assert measured.not_private == ()


def test_only_the_accuracies_of_teachers_are_not_private() -> None:
    measured = DiscriminatorTest(Accuracy(60, 100), Accuracy(90, 100), Accuracy(80, 100))
    assert all("NOT PRIVATE" in name for name, _ in measured.not_private)
    assert "90" not in measured.sentence
