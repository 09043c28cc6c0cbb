"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

Save = Callable[[str], str]
MISSING = "no Chromium is installed (apt-get install chromium)"


@pytest.fixture(scope="module")  # not longer: Playwright's event loop would be in the way of other tests' loops
def browser() -> Iterator[Browser]:
    """Start Chromium; without one, tests are skipped, or fail where SIXFOLD_NEEDS_BROWSER=1 promises one."""
    is_needed = os.environ.get("SIXFOLD_NEEDS_BROWSER") == "1"
    if not is_needed:
        pytest.importorskip("playwright.sync_api")
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        (pytest.fail if is_needed else pytest.skip)(MISSING)
    with sync_playwright() as started:
        # The sandbox needs rights that containers do not have; the pages are our own.
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Open a fresh profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(120_000)  # milliseconds; a busy machine is no failure
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """Open a tab whose errors can be read in `page.errors`."""
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.errors = errors  # type: ignore[attr-defined]
    return page


@pytest.fixture(scope="module")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Return a function that writes a page to disk and returns its address."""

    def write(content: str) -> str:
        path = tmp_path_factory.mktemp("page") / "page.html"
        path.write_text(content, encoding="utf-8")
        return path.as_uri()

    return write
