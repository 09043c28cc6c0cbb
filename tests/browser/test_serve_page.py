"""The web page of the server, in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route
    from tests.conftest import Served

MODEL = Path(__file__).parents[1] / "compat" / "format-1-phrases"
HOSTILE = (
    '<img src=x onerror="window.hit=1"><script>window.hit=1</script> "\'><svg onload=window.hit=1> '
    "javascript:window.hit=1 {{7*7}} ${window.hit=1} </textarea><iframe srcdoc='<script>parent.hit=1</script>'>"
)


@pytest.fixture
def opened(page: Page, server: Served) -> Page:
    """Open the page; a request to another server is blocked and counted as an error."""

    def block_other_servers(route: Route) -> None:
        if route.request.url.startswith(server.address):
            route.continue_()
        else:
            page.errors.append(route.request.url)  # type: ignore[attr-defined]
            route.abort()

    page.route("**/*", block_other_servers)
    page.goto(server.address)
    page.wait_for_selector("#target-language option", state="attached")
    return page


def translate(page: Page, text: str) -> None:
    """Type a text and wait for its translation."""
    with page.expect_response(lambda response: "/api/translate" in response.url and response.ok):
        page.fill("#source", text)
    page.wait_for_selector('#result[aria-busy="false"]')


def marked(page: Page) -> list[str]:
    """Return the words that are marked in the source text."""
    return page.locator("#mirror mark").all_text_contents()


def test_typed_text_is_translated_without_requests_to_other_servers(opened: Page) -> None:
    translate(opened, "I travel to Berlin.\n\n  The dog sleeps.")
    assert re.fullmatch(r"\S.*\S\n\n  \S.*\S", opened.inner_text("#target"))
    assert opened.errors == []  # type: ignore[attr-defined]


def test_a_click_on_a_word_marks_its_source_words(opened: Page) -> None:
    translate(opened, "The dog sleeps. The man sees a dog.")
    word = opened.locator(".word").last
    word.click()
    assert "lit" in (word.get_attribute("class") or "")
    assert marked(opened)
    assert opened.inner_text("#status") == f"{word.inner_text()} ← {' '.join(marked(opened))}"


def test_the_page_can_be_used_with_the_keyboard_alone(opened: Page) -> None:
    translate(opened, "The old man sees a dog.")
    opened.focus("#target")
    opened.keyboard.press("ArrowRight")
    first = opened.inner_text(".word.lit")
    opened.keyboard.press("ArrowRight")
    assert opened.inner_text(".word.lit") != first
    opened.keyboard.press("Escape")
    assert opened.evaluate("document.activeElement.id") == "source"
    assert opened.locator(".word.lit").count() == 0
    opened.keyboard.press("Alt+c")
    opened.locator("#status", has_text=re.compile("Copied|Selected")).wait_for()


def test_an_alternative_translation_can_be_chosen(opened: Page) -> None:
    translate(opened, "The old man sees a dog.")
    before = opened.inner_text("#target")
    other = opened.locator("#alternatives button").first
    chosen = other.inner_text()
    other.click()
    assert opened.inner_text("#target") == chosen != before
    assert before in opened.locator("#alternatives button").all_inner_texts()


def test_quality_warnings_are_shown(opened: Page) -> None:
    translate(opened, "The man has 4711 dogs.")
    assert "4711" in opened.inner_text("#flags")
    assert opened.locator(".sentence.suspicious").count() == 1


def test_the_caret_marks_the_translated_word(opened: Page) -> None:
    translate(opened, "The old man sees a dog.")
    opened.focus("#source")
    opened.keyboard.press("Control+Home")
    opened.keyboard.press("ArrowRight")
    assert opened.locator(".word.lit").count() >= 1


def test_characters_outside_the_basic_plane_do_not_shift_the_marks(opened: Page) -> None:
    translate(opened, "😀😀😀 The dog sleeps.")
    for word in opened.locator(".word").all():
        word.click()
        assert all(part in "😀😀😀 The dog sleeps." for part in marked(opened))
        assert "�" not in "".join(marked(opened))


def test_the_explanation_opens_in_a_frame_without_an_origin(opened: Page) -> None:
    translate(opened, "The old man sees a dog.")
    with opened.expect_response("**/explain") as answered:
        opened.click("#explain")
    assert answered.value.ok
    frame = opened.frame(name="explanation")
    assert frame
    frame.wait_for_selector("svg, canvas")
    assert frame.evaluate("window.origin") == "null"
    opened.keyboard.press("Escape")
    opened.wait_for_selector("#explanation", state="hidden")
    assert opened.errors == []  # type: ignore[attr-defined]


def test_hostile_text_stays_text(opened: Page) -> None:
    translate(opened, HOSTILE)
    assert opened.input_value("#source") == HOSTILE
    for selector in ("#target", "#alternatives", "#flags", "#mirror"):
        assert opened.locator(f"{selector} :is(img, script, svg, iframe, a)").count() == 0
    for word in opened.locator(".word").all()[:5]:
        word.click()
    opened.wait_for_timeout(200)
    assert opened.evaluate("window.hit") is None
    with opened.expect_response("**/explain"):
        opened.click("#explain")
    frame = opened.frame(name="explanation")
    assert frame
    frame.wait_for_selector("svg, canvas")
    opened.wait_for_timeout(500)  # time for an attack to run
    assert frame.evaluate("window.hit") is None
    assert opened.evaluate("window.hit") is None
    assert opened.errors == []  # type: ignore[attr-defined]


def test_a_phone_shows_it_all_without_scrolling_sideways(browser: Browser, server: Served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(server.address)
    page.fill("#source", "The old man sees a dog. " * 8 + "x" * 300)
    page.wait_for_selector(".word")
    page.locator(".word").first.tap()
    page.wait_for_selector("#mirror mark", state="attached")
    assert page.locator("#mirror mark").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.goto(f"{server.address}/docs")
    page.wait_for_selector(".route")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_both_themes_are_legible(browser: Browser, server: Served) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(server.address)
        colours = page.evaluate("['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])")
        ink, paper = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
        assert (ink < paper) == (scheme == "light")
        assert abs(ink - paper) > 450
        context.close()


def test_every_control_has_a_name_for_screen_readers(opened: Page) -> None:
    translate(opened, "The old man has 4711 dogs.")
    nameless = opened.evaluate(
        """[...document.querySelectorAll("button, select, textarea, iframe, [tabindex], section, dialog")]
        .filter((each) => !(each.textContent.trim() || each.ariaLabel || each.title || each.labels?.length))
        .map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_languages_can_be_swapped_if_both_directions_are_served(
    page: Page, start_server: Callable[..., Served], tmp_path: Path
) -> None:
    shutil.copytree(MODEL, tmp_path / "other")
    served = start_server(MODEL, f"{tmp_path / 'other'}=de-en")
    page.goto(served.address)
    page.wait_for_selector("#source-language option[value=auto]", state="attached")
    page.fill("#source", "This is a very beautiful day and I am happy about it.")
    page.select_option("#target-language", "de")
    page.wait_for_selector(".word")
    assert "English" in page.inner_text("#source-language option[value=auto]")
    page.keyboard.press("Alt+s")
    assert page.input_value("#source-language") == "de"
    assert page.input_value("#target-language") == "en"
    assert page.errors == []  # type: ignore[attr-defined]


def test_the_documentation_lists_every_api(page: Page, server: Served) -> None:
    page.goto(f"{server.address}/docs")
    page.wait_for_selector(".route")
    headings = page.locator("h2").all_inner_texts()
    assert {"LibreTranslate", "DeepL", "Sixfold", "Status"} <= set(headings)
    assert page.errors == []  # type: ignore[attr-defined]
