"""A run from the form to its report, as somebody sees it who has never seen the project."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.support.browser.story import DEPLOYMENT, DIALOG, MENU, OWN, Story
from tests.support.runs.pipeline import SMALL

UNSCROLLED = (
    "return [...document.querySelectorAll('main pre')].every(e => e.scrollWidth <= e.clientWidth)"
)
"""True if no block of text has to be scrolled sideways."""


def test_what_was_changed_in_the_form_is_what_the_run_did(story: Story, finished: str) -> None:
    done = story.site.manifest(finished)["summary"]
    assert done["n_synthetic"] == 90
    assert done["epsilon_spent"] == pytest.approx(3.5, abs=0.01)


def test_the_page_of_the_run_lists_every_step(story: Story, finished: str) -> None:
    story.open_run(finished, "Task Runs")
    story.window.see("train student", "collect", "measure t=2", "embed smollm2 t=2", "Completed")
    story.window.shot("run-3-steps", whole=True)


def test_artifacts_hold_the_plan_and_a_table_per_iteration(story: Story, finished: str) -> None:
    window = story.window
    story.open_run(finished, "Artifacts")
    window.see("plan", "iteration-0", "iteration-1", "iteration-2", "mlflow-run", "report")
    window.shot("run-4-artifacts", whole=True)
    story.open_artifact(finished, "plan")
    window.see("epsilon 3.5")
    window.shot("run-5-plan")
    assert window.driver.execute_script(UNSCROLLED), "a line is longer than its block"
    story.open_artifact(finished, "iteration-2")
    window.see("terse", "formal", "story")
    window.shot("run-6-iteration")
    story.open_artifact(finished, "report")
    window.see("accuracy", "90 synthetic texts", "wasp show", "All runs of this task in MLflow")
    window.shot("run-7-result", whole=True)


def test_a_link_leads_from_the_run_to_mlflow_and_from_there_back(
    story: Story, finished: str
) -> None:
    window = story.window
    story.open_artifact(finished, "mlflow-run")
    window.press("//main//a[contains(@href, '/#/experiments/')]", "the link to MLflow")
    window.latest()
    window.see("Metrics", "Tags", "accuracy")
    window.shot("mlflow-1-run")
    mlflow_run = story.site.manifest(finished)["summary"]["mlflow_run_id"]
    assert mlflow_run in window.address
    tags = {tag["key"]: tag["value"] for tag in story.site.mlflow_run(mlflow_run)["data"]["tags"]}
    window.open(tags["prefect.flow_run_url"])
    window.see(story.site.flow_run(finished)["name"], "Completed", "Task Runs")
    assert finished in window.address


def test_a_run_of_the_form_has_the_values_that_the_form_does_not_draw(
    story: Story, finished: str
) -> None:
    filled = story.site.deployment(DEPLOYMENT)["parameters"]["config"]
    sent = story.site.flow_run(finished)["parameters"]["config"]
    changes = {"privacy": {"epsilon": 3.5}, "method": {"samples": 90}}
    assert len(filled["plms"]) == 5
    assert {name: sent[name] for name in filled} == {
        name: value | changes[name] if name in changes else value for name, value in filled.items()
    }


def test_the_report_opens_from_mlflow(story: Story, finished: str) -> None:
    site, window = story.site, story.window
    window.open(
        site.mlflow_page(site.manifest(finished)["summary"]["mlflow_run_id"]) + "/artifacts"
    )
    window.press("//*[normalize-space(text())='report.html']", "report.html")
    window.wait("the report in a frame", lambda: window.inside("//iframe", "epsilon"))
    window.shot("mlflow-3-report")


def test_the_report_is_a_page_without_complaints(story: Story, finished: str) -> None:
    window = story.window
    window.complaints()
    window.open(f"file://{story.site.manifest(finished)['summary']['report']}")
    window.see("epsilon", "FID", "Data sent to language models")
    window.shot("report", whole=True)
    assert window.complaints() == []
    pictures = window.driver.execute_script(
        "return [...document.images].every(i => i.complete && i.naturalWidth > 0)"
    )
    assert pictures is True


# --- the pause before the first private row is opened: the plan as a form on the page of the run
@pytest.fixture
def waiting(story: Story) -> str:
    """A run that waits for somebody to approve its plan; its id."""
    config = SMALL | {"execution": SMALL["execution"] | {"approval": True, "seed": 7}}
    flow_run = story.site.start(DEPLOYMENT, config)
    story.open_run(flow_run)
    story.see_state("Paused")
    return flow_run


def approve(story: Story) -> None:
    """Open the form from the menu of the run, and send it."""
    window = story.window
    window.press(MENU, "the menu of the run")
    window.click("Resume", "menuitem")
    window.see("Resume Flow Run", "Approved", "Your name")
    window.shot("approval-2-plan")
    window.press(f"{window.field('Approved')}//*[@role='switch']", "the switch Approved")
    window.fill("the data owner", "By")
    window.shot("approval-3-filled")
    window.click("Resume", within=DIALOG)


def test_a_plan_that_is_approved_on_the_page_is_executed(story: Story, waiting: str) -> None:
    story.window.shot("approval-1-paused")
    story.open_artifact(waiting, "plan")
    story.window.see("required before private data is opened")
    story.open_run(waiting)
    approve(story)
    story.see_state("Completed")
    story.window.shot("approval-4-completed")
    assert story.site.manifest(waiting)["approval"]["by"] == "the data owner"


# --- data of one's own: registered by its owner, then started with nothing but the drawn fields
def test_a_registered_dataset_runs_from_the_form_of_own_data(story: Story, tmp_path: Path) -> None:
    classes = {"early": "the train was early", "late": "the train was late"}
    rows = [
        {"note": f"{sentence}, said passenger {number}", "topic": name}
        for number in range(100)
        for name, sentence in classes.items()
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "notes.csv", index=False)
    labels = [{"name": name, "description": sentence} for name, sentence in classes.items()]
    task = {"name": "trains", "item": "note of a passenger", "labels": labels}
    (tmp_path / "trains.yaml").write_text(yaml.safe_dump(task))
    columns = ("--text", "note", "--label", "topic", "--class", "early", "--class", "late")
    story.site.pipeline.answer(
        *("dataset", "add", "trains", "--path", str(tmp_path / "notes.csv")),
        *(*columns, "--declared-rows", "200"),
    )
    window = story.window
    story.open_form(OWN)
    window.fill("trains", "Private", "Dataset")
    window.fill(str(tmp_path / "trains.yaml"), "Task")
    window.fill("80", "Method", "Samples")
    window.click("Add item")
    window.type("ngram:helpdesk", f"{window.field('Models')}//textarea")
    window.shot("own-data-filled", whole=True)
    flow_run = story.submit()
    story.open_run(flow_run, "Details")
    story.see_state("Completed")
    window.see("Charged epsilon 4.0000")
    assert story.site.manifest(flow_run)["dataset"] == "trains"
