"""The catalogue of mutations fits the source: `make mutants` takes minutes, this takes none."""

import pytest

from tests.mutants.plugin import read_catalogue
from tests.support.paths import ROOT


@pytest.mark.parametrize("mutant", read_catalogue(), ids=lambda mutant: mutant.name)
def test_the_entry_fits_the_source_and_its_tests_exist(mutant) -> None:
    assert mutant.problem() == ""
    assert mutant.before != mutant.after
    for test in mutant.tests:
        assert (ROOT / test.split("::")[0]).exists(), test
