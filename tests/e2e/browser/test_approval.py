"""The pause before the first private row is opened: the plan as a form on the page of the run."""

import pytest

from tests.support.browser.story import DEPLOYMENT, DIALOG, MENU, Story
from tests.support.runs.pipeline import SMALL


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


def test_a_plan_that_is_approved_on_the_page_is_carried_out(story: Story, waiting: str) -> None:
    story.window.shot("approval-1-paused")
    approve(story)
    story.see_state("Completed")
    story.window.shot("approval-4-completed")
    assert story.site.manifest(waiting)["approval"]["by"] == "the data owner"
