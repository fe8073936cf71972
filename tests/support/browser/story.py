"""Actions of a person in the Prefect UI, one method per intention."""

from dataclasses import dataclass
from typing import Any

from selenium.webdriver.common.by import By

from tests.support.browser.browser import Browser
from tests.support.servers.stack import RunningStack

DEPLOYMENT = "wasp/demo"
OWN = "wasp/own-data"
DEMO: dict[str, Any] = {
    "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 128}},
    "method": {"guidance": "votes", "iterations": 3, "samples": 72, "votes": 4, "examples": 4},
    "student": {"kind": "linear"},
}
"""Smaller values in the form of the demo, for a run of seconds."""
RUN_TAKES = 240.0
ENDS = ("Completed", "Failed", "Crashed", "Cancelled")
STATE = "//main//nav/following-sibling::div[1]/*[1]"
MENU = "//main//button[@aria-haspopup='menu']"
DIALOG = "//*[@role='dialog' or @role='alertdialog']"


@dataclass
class Story:
    """A person in front of the browser."""

    site: RunningStack
    window: Browser

    def open_form(self, deployment: str = DEPLOYMENT) -> None:
        """Go from the list of deployments to the form of a run with values of one's own."""
        self.window.open(f"{self.site.prefect}/v2/deployments?limit=50")
        # Other flows have a deployment of that name too.
        location = self.site.deployment(deployment)["id"]
        self.window.press(
            f"//a[contains(@href, '/deployment/{location}')]", f"link to {deployment}"
        )
        self.window.see("Runs", "Schedules")
        self.window.click("Run")
        self.window.click("Custom run", "menuitem")
        self.window.see("Parameters", "Submit")

    def submit(self) -> str:
        """Send the form; return the id of the run that it made."""
        before = {run["id"] for run in self.site.flow_runs()}
        self.window.click("Submit")
        made = self.window.wait(
            "a new run", lambda: {run["id"] for run in self.site.flow_runs()} - before
        )
        return str(made.pop())

    def open_run(self, flow_run: str, tab: str = "Logs") -> None:
        self.window.open(self.site.run_page(flow_run))
        self.window.select_tab(tab)

    @property
    def state(self) -> str:
        """The state that the open page of a run shows."""
        return str(self.window.driver.find_element(By.XPATH, STATE).text)

    def see_state(self, expected: str) -> None:
        """Wait until the open page of a run shows a state; another end is reported at once."""

        def reached() -> str:
            seen = self.state
            return seen if seen in {expected, *ENDS} else ""

        seen = self.window.wait(f"the state {expected}", reached, patience=RUN_TAKES)
        assert seen == expected, self.window.text[-3000:]

    def open_artifact(self, flow_run: str, key: str) -> None:
        """Go from the page of a run to one of its artifacts."""
        self.open_run(flow_run, "Artifacts")
        artifact = self.site.artifact_page(flow_run, key).rsplit("/", 1)[1]
        self.window.press(f"//main//a[contains(@href, '{artifact}')]", f"artifact {key}")
        self.window.see("Raw")

    def retry(self) -> None:
        """Retry the run whose page is open: the menu, the dialog, the button."""
        self.window.press(MENU, "the menu of the run")
        self.window.shot("retry-2-menu")
        self.window.click("Retry", "menuitem")
        self.window.see("Will become:", "AwaitingRetry")
        self.window.shot("retry-3-dialog")
        before = self.state
        self.window.click("Retry", within=DIALOG)
        self.window.wait("another state", lambda: self.state != before)
