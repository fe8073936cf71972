"""One Prefect server with a worker, one MLflow server and one browser for all tests of this folder."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.support.browser.browser import HEIGHT, WIDTH, Browser
from tests.support.browser.story import DEMO, DEPLOYMENT, Story
from tests.support.paths import OUTPUT
from tests.support.runs.pipeline import merged
from tests.support.servers.stack import RunningStack, stack

SHOTS = OUTPUT / "screenshots"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with stack(
        tmp_path_factory.mktemp("site") / "home", PREFECT_WORKER_QUERY_SECONDS="1"
    ) as running:
        yield running


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    for old in SHOTS.glob("*.png"):
        old.unlink()
    with chromium(tmp_path_factory.mktemp("profile"), SHOTS) as entry:
        yield entry


@pytest.fixture(scope="session")
def story(site: RunningStack, window: Browser) -> Story:
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


# --- starts the system's Chromium through its chromedriver; nothing is downloaded and no page leaves this machine
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en-US",
    f"--window-size={WIDTH},{HEIGHT}",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",  # pages stay on this machine too
)


def program(variable: str, name: str) -> str:
    """Return the path of a browser program: the variable, else what the system has."""
    path = os.environ.get(variable) or shutil.which(name)
    if path is None:
        raise RuntimeError(
            f"{name} is missing: apt-get install chromium chromium-driver, or set {variable}"
        )
    return path


@contextmanager
def chromium(profile: Path, shots: Path) -> Iterator["Browser"]:
    """Start a browser with a fresh profile; its screenshots go into `shots`."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("CHROME_BIN", "chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=Service(program("CHROMEDRIVER", "chromedriver"))
    )
    try:
        shots.mkdir(parents=True, exist_ok=True)
        window = Browser(driver, shots)
        window.size(HEIGHT)
        yield window
    finally:
        driver.quit()
