"""Starts the system's Chromium through its chromedriver; nothing is downloaded and no page leaves this machine."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.support.browser.browser import HEIGHT, WIDTH, Browser

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
        raise RuntimeError(f"{name} is missing: apt-get install chromium chromium-driver, or set {variable}")
    return path


@contextmanager
def chromium(profile: Path, shots: Path) -> Iterator["Browser"]:
    """Start a browser with a fresh profile; its screenshots go into `shots`."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("CHROME_BIN", "chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program("CHROMEDRIVER", "chromedriver")))
    try:
        shots.mkdir(parents=True, exist_ok=True)
        window = Browser(driver, shots)
        window.size(HEIGHT)
        yield window
    finally:
        driver.quit()
