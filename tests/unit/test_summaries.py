"""Tables, sentences and forecasts of exported texts agree with the stored cells of their studies."""

import pandas as pd
import pytest

from tests.studies.summaries import (
    CELLS,
    Measured,
    read_exported,
    read_more,
    summarise,
    summary,
    with_table,
)


def test_documents_and_measurements_agree_with_the_stored_cells() -> None:
    result = summarise()
    command = "run: python -m tests.studies.summaries"
    assert all(path.read_text(encoding="utf-8") == text for path, text in result.texts().items()), (
        command
    )
    assert result.missing() == []


def test_the_best_floor_is_the_rival_with_the_highest_mean_and_gains_are_paired_by_seed() -> None:
    entry = Measured(
        file={0: 0.8, 1: 0.6},
        without={0: 0.5, 1: 0.5},
        release={0: 0.7, 1: 0.5},
        real={0: 0.9, 1: 0.9},
        unnoised={},
    )
    assert entry.floor == entry.release
    assert entry.gain.mean == pytest.approx(0.1)
    assert (entry.gain.low, entry.gain.high) == pytest.approx((0.1, 0.1))
    total = summary([entry])
    assert total.closed == pytest.approx(0.1 / 0.3)
    assert total.over_without == pytest.approx(0.2)
    assert (total.below, total.settings) == (0, 1)


def test_a_place_has_one_accuracy_for_each_seed_and_rival() -> None:
    cells = pd.read_parquet(CELLS / "more_texts.parquet")
    for names in ("own", "neutral"):
        for setting, entry in read_more(cells, names, 2000)["head"].items():
            for values in (entry.file, entry.without, entry.release, entry.real, entry.unnoised):
                assert sorted(values) == list(range(5)), setting
    study = read_exported(pd.read_parquet(CELLS / "exported_texts.parquet"))
    assert all(sorted(entry.file) == list(range(5)) for entry in study["words"].values())


def test_a_table_is_replaced_below_its_line_alone() -> None:
    text = "# One\n\n| a |\n|---|\n| 1 |\n\n# Two\n\n| a |\n|---|\n| 2 |\n\nend\n"
    assert with_table(text, "# Two", ["| b |"]) == text.replace("| a |\n|---|\n| 2 |", "| b |")
    with pytest.raises(ValueError, match="0 lines begin with '# Three'"):
        with_table(text, "# Three", [])
