"""One Prefect server with a worker, one MLflow server and one browser for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser.browser import Browser
from tests.support.browser.chromium import chromium
from tests.support.browser.site import Site, running_site
from tests.support.browser.story import DEMO, DEPLOYMENT, Story
from tests.support.paths import OUTPUT
from tests.support.runs.pipeline import merged

SHOTS = OUTPUT / "screenshots"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site") / "home") as running:
        yield running


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    for old in SHOTS.glob("*.png"):
        old.unlink()
    with chromium(tmp_path_factory.mktemp("profile"), SHOTS) as one:
        yield one


@pytest.fixture(scope="session")
def story(site: Site, window: Browser) -> Story:
    filled = site.deployment(DEPLOYMENT)["parameters"]["config"]
    site.fill_form_with(DEPLOYMENT, merged(filled, DEMO))
    return Story(site, window)


@pytest.fixture(scope="session")
def finished(story: Story) -> str:
    """A run that was started from the form with another epsilon and fewer texts, and watched to its end; its id."""
    window = story.window
    story.open_form()
    window.fill("3.5", "Privacy", "Epsilon")
    window.fill("90", "Method", "Samples")
    window.shot("form-2-changed", whole=True)
    flow_run = story.submit()
    story.open_run(flow_run)
    story.see_state("Running")
    window.shot("run-1-running")
    story.see_state("Completed")
    window.shot("run-2-completed")
    return flow_run
