"""Pages in a real browser, for the tests of all of them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None and os.environ.get("MAXMAHAL_REQUIRE_CHROMIUM") != "1":
    pytest.skip(
        "NO CHROMIUM FOUND: the tests of pages did NOT run; install chromium, "
        "or set MAXMAHAL_REQUIRE_CHROMIUM=1 to make this a failure",
        allow_module_level=True,
    )

from playwright.sync_api import Browser, Page, Request, sync_playwright  # noqa: E402

# The page then jumps instead of scrolling, so that nothing moves away from the pointer on a busy machine.
STILL: dict[str, Any] = {"reduced_motion": "reduce"}


@contextmanager
def open_browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.fail("MAXMAHAL_REQUIRE_CHROMIUM=1, but neither chromium nor google-chrome is installed.")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visit:
    """A page that was opened while everything it says and asks for is written down."""

    def __init__(self, browser: Browser, file: Path, width: int = 1440, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **STILL)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._note)
        self.page.goto(file.as_uri())

    def _note(self, request: Request) -> None:
        self.requests.append(request.url)
