"""A headless Chromium that does what a person does: reads words, clicks on words, fills fields by their labels."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

PATIENCE = 60.0
WIDTH, HEIGHT, TALLEST = 1440, 1100, 12000
ROLES = {
    "button": "self::button or @role='button'",
    "tab": "@role='tab'",
    "menuitem": "@role='menuitem'",
}
PASSING = (
    StaleElementReferenceException,
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
)
"""Errors of a page that is being redrawn; the next look sees it whole."""
STILL = """const [element, done] = arguments
element.scrollIntoView({block: 'center', behavior: 'instant'})
const place = () => JSON.stringify(element.getBoundingClientRect())
const before = place()
setTimeout(() => done(place() === before), 60)"""
"""True if an element does not move: a click on a moving one misses it."""
WORDS = "return document.body ? document.body.innerText : ''"
"""Content of the page, read in one look: an element that is selected first may be replaced before it is read."""
SCROLLED = "return Math.max(0, ...[...document.querySelectorAll('*')].map(e => e.scrollHeight - e.clientHeight))"


class Browser:
    """One window. It waits for each element; a missing one is reported with the content of the page."""

    def __init__(self, driver: webdriver.Chrome, shots: Path) -> None:
        self.driver = driver
        self._shots = shots

    @property
    def text(self) -> str:
        return str(self.driver.execute_script(WORDS))

    @property
    def address(self) -> str:
        return str(self.driver.current_url)

    def open(self, address: str) -> None:
        self.driver.get(address)

    def wait(self, what: str, result: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """Return the first true value of `found`."""
        try:
            return WebDriverWait(self.driver, patience, 0.1, PASSING).until(lambda _: result())
        except TimeoutException:
            self.shot(f"not-seen-{re.sub('[^a-z0-9]+', '-', what.lower())[:60]}")
            message = f"not seen in {patience:.0f} s: {what}\n{self.address}\n{self.text[:1500]}"
            raise AssertionError(message) from None

    def see(self, *texts: str) -> str:
        """Wait until the page shows every text; return all it shows."""

        def seen() -> str:
            words = self.text
            return words if all(text in words for text in texts) else ""

        return str(self.wait(" and ".join(texts), seen))

    def click(self, text: str, role: str = "button", within: str = "") -> None:
        """Click what has this text (or label, or title) and role, under the element of the path `within`."""
        words = quoted(text)
        same = f"(normalize-space(.)={words} or @aria-label={words} or @title={words} or starts-with(., {words}))"
        self.press(f"{within}//*[({ROLES[role]}) and {same}]", f"{role} '{text}'")

    def select_tab(self, text: str) -> None:
        """Click a tab until it is selected: a page that still loads loses a click."""

        def selected() -> bool:
            self.click(text, "tab")
            tab = self.shown(
                f"//*[{ROLES['tab']} and starts-with(normalize-space(.), {quoted(text)})]"
            )
            return tab is not None and tab.get_attribute("aria-selected") != "false"

        self.wait(f"the selected tab '{text}'", selected)

    def press(self, path: str, what: str) -> None:
        """Click the first visible element of a path."""

        def clicked() -> bool:
            element = self.shown(path)
            if (
                element is not None
                and element.is_enabled()
                and self.driver.execute_async_script(STILL, element)
            ):
                element.click()
                return True
            return False

        self.wait(what, clicked)

    def field(self, *labels: str) -> str:
        """Return the path of a field of a form: its label, after the labels of the boxes around it."""
        path = ""
        for label in labels:
            same = f"normalize-space(.)={quoted(label)} or normalize-space(.)={quoted(label + ' (Optional)')}"
            path += f"//label[{same}]/ancestor::*[fieldset][1]"
        return path

    def fill(self, value: str, *labels: str) -> None:
        """Replace what a field holds."""
        box = f"{self.field(*labels)}/fieldset//*[self::input or self::textarea]"
        self.type(value, box)
        self.wait(f"{value} in {labels[-1]}", lambda: self.value(*labels) == value)

    def type(self, value: str, path: str) -> None:
        """Replace the text of a box."""
        self.press(path, path)

        def typed() -> bool:
            element = self.driver.switch_to.active_element
            element.send_keys(Keys.CONTROL, "a")
            element.send_keys(value)
            return True

        self.wait(f"a box that takes {value}", typed)

    def value(self, *labels: str) -> str:
        """Return what a field holds: a text, a number, a choice, 'true' or 'false' of a switch."""
        fieldset = f"{self.field(*labels)}/fieldset"
        box = f"{fieldset}//*[self::input or self::textarea or @role='switch' or @aria-haspopup='listbox']"

        def held() -> tuple[str]:
            element = self.driver.find_element(By.XPATH, box)
            return (
                str(
                    element.get_attribute("aria-checked")
                    or element.get_attribute("value")
                    or element.text
                ),
            )

        (value,) = self.wait(" > ".join(labels), held)
        return str(value)

    def shot(self, name: str, whole: bool = False) -> Path:
        """Keep a picture of the page; `whole`: as high as what it scrolls."""
        path = self._shots / f"{name}.png"
        if whole:
            height = HEIGHT + int(self.driver.execute_script(SCROLLED))
            self.size(min(TALLEST, height))
        self.driver.save_screenshot(str(path))
        if whole:
            self.size(HEIGHT)
        return path

    def size(self, height: int) -> None:
        size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.wait(
            f"a window of height {height}",
            lambda: self.driver.execute_script("return innerHeight") == height,
        )

    def complaints(self) -> list[str]:
        """Return the errors of the console since the last look."""
        return [
            line["message"] for line in self.driver.get_log("browser") if line["level"] == "SEVERE"
        ]

    def latest(self) -> None:
        """Go on in the window that was opened last."""
        self.driver.switch_to.window(self.driver.window_handles[-1])

    def inside(self, frame: str, text: str) -> bool:
        """Say whether a frame shows a text."""
        self.driver.switch_to.frame(self.driver.find_element(By.XPATH, frame))
        try:
            return text in self.text
        finally:
            self.driver.switch_to.default_content()

    def shown(self, path: str) -> WebElement | None:
        """Return the first visible element of a path."""
        elements = self.driver.find_elements(By.XPATH, path)
        return next((element for element in elements if element.is_displayed()), None)


def quoted(text: str) -> str:
    """Write a text as a literal of XPath."""
    return f"'{text}'" if "'" not in text else f'"{text}"'
