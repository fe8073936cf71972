"""What touched private rows without noise stands in the budget book and on the officer's page."""

from pathlib import Path

from tests.support.runs.pipeline import Pipeline


def page(pipeline: Pipeline) -> dict:
    return pipeline.answer("budget", "report", "desk")


def test_a_fid_against_private_rows_is_one_look_per_iteration_however_often_the_run_goes_on(
    pipeline: Pipeline,
) -> None:
    settings = {"evaluation": {"fid_reference": "private"}, "method": {"iterations": 2, "samples": 48}}
    summary = pipeline.run(**settings)
    pipeline.run(**settings)
    told = page(pipeline)
    assert [(one["what"], one["run_id"]) for one in told["touched"]] == [
        ("FID against the private rows", summary["run_id"])
    ] * 2
    assert all(one["at"] and one["who"] for one in told["touched"])
    assert told["exposed"] is False
    text = Path(told["page"]).read_text(encoding="utf-8")
    section = text[text.index('id="unnoised"') : text.index('id="exports"')]
    assert section.count("FID against the private rows") == 2
    assert pipeline.answer("budget", "verify")["problems"] == []


def test_a_run_that_never_votes_still_tells_of_its_looks_and_one_without_noise_is_listed(pipeline: Pipeline) -> None:
    pipeline.run(evaluation={"fid_reference": "private"}, method={"iterations": 1, "samples": 24})
    pipeline.run(privacy={"epsilon": "inf"}, method={"iterations": 2, "samples": 48})
    told = page(pipeline)
    assert [one["what"] for one in told["touched"]] == [
        "FID against the private rows",
        "vote-0 without noise",
    ]
    assert told["exposed"] is True
