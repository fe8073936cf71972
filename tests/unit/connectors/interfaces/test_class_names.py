"""Names of classes: those that say nothing to a reader, and their order."""

import pytest

from connectors.interfaces.text_forms import class_order, is_code

CODES = [
    "17", "-1", "1.5", "R07.4", "B2", "a", "true", "No", "ja", "class_3", "Label 4", "C-12", "2024-01-31"
]  # fmt: skip
NAMES = [
    "pain", "4 stars", "spam", "Übelkeit", "咳", "기침", "кашель", "not urgent", "icd10 code", "حمى"
]  # fmt: skip


@pytest.mark.parametrize(("names", "are_codes"), [(CODES, True), (NAMES, False)])
def test_a_name_without_a_word_is_a_code(names: list[str], are_codes: bool) -> None:
    assert [is_code(name) for name in names] == [are_codes] * len(names)


def test_numbers_are_ordered_by_their_value_and_other_names_by_their_letters() -> None:
    numbers = [str(number) for number in range(77)]
    assert class_order(sorted(numbers)) == numbers
    assert class_order(["b", "10", "a", "-2", "1.5", "007"]) == ["-2", "1.5", "10", "007", "a", "b"]
    assert class_order(["Pain", "pain", "ache"]) == sorted(["Pain", "pain", "ache"])
