"""What other packages import: removing or renaming an export breaks them."""

from wasp import extend

EXPORTS = """
AnyConfig AnyMethod ArtifactRef Casting Changes Completion ConfigError LabelledRows LanguageModel Method Metric
MetricInput MissingPackageError ModelSpec OwnRowsConfig Prompt Releases RoundsMethod Run RunConfig Section WaspError
Written embedded generate keep_nothing measure_iteration method_flow no_release read_options run_step vote_releases
"""


def test_the_exports_are_these_and_exist() -> None:
    assert sorted(extend.__all__) == EXPORTS.split()
    assert [name for name in extend.__all__ if getattr(extend, name) is None] == []
