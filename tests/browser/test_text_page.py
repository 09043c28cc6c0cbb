"""The explain page of a text in a real browser: what was given and written, from disk, with hostile text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from tests.browser.conftest import Save
from tests.browser.test_explain_page import HOSTILE, downloaded, heading, open_at

from sixfold.decode.generate import Generator, load
from sixfold.decode.generate_options import GenerateOptions
from sixfold.explain import TextExplanation, explain_continuation, explain_text, render
from sixfold.text.chat import Message

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

PROMPT = "one two three"
VIEWS = ("tokens", "attention", "heads", "positions")
OPTIONS = GenerateOptions(max_tokens=12, temperature=0)


@pytest.fixture(scope="module", autouse=True)
def quick(one_core: None) -> None:
    """Use one core: the models are tiny."""


@pytest.fixture(scope="module")
def generator(chat_model: Path) -> Generator:
    return load(chat_model)


@pytest.fixture(scope="module")
def explanation(generator: Generator) -> TextExplanation:
    return explain_continuation(generator, PROMPT, OPTIONS, name="parrot")


@pytest.fixture(scope="module")
def address(explanation: TextExplanation, save: Save) -> str:
    return save(render(explanation))


def visible(text: str) -> str:
    """Return a text with signs for what cannot be seen, as the page shows it."""
    signs = {place: chr(0x2400 + place) for place in range(32)} | {ord("\t"): "\u21e5", ord("\n"): "\n"}
    return re.sub("[\x7f-\x9f\u2028\u2029]", "\ufffd", text.translate(signs))


def test_it_opens_from_disk_without_a_network_and_without_an_error(
    page: Page, context: BrowserContext, address: str, explanation: TextExplanation
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    context.set_offline(True)
    for view in VIEWS:
        open_at(page, address, f"view={view}")
        assert page.get_attribute(f"#tab-{view}", "aria-selected") == "true"
    assert page.inner_text(".text span") == PROMPT
    assert page.text_content(".text b") == visible(explanation.continuation)
    assert not [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert page.errors == []  # type: ignore[attr-defined]


def test_tokens_that_were_given_are_told_apart_from_those_that_were_written(
    page: Page, address: str, explanation: TextExplanation
) -> None:
    open_at(page, address)
    groups = page.locator(".chips")
    assert groups.nth(0).get_attribute("aria-label") == "Tokens of the prompt"
    assert groups.nth(0).locator(".chip.given").count() == explanation.num_given
    assert groups.nth(1).locator(".chip").count() == len(explanation.tokens) - explanation.num_given
    assert groups.nth(1).locator(".chip.given").count() == 0
    open_at(page, address, "view=attention")
    styles = page.locator(".arcs .token[data-side='from'] text").evaluate_all(
        "nodes => nodes.map((node) => node.getAttribute('font-style'))"
    )
    num_written = len(styles) - explanation.num_given
    assert styles == ["italic"] * explanation.num_given + [None] * num_written
    assert len(styles) == len(explanation.tokens) - 1  # the last one was not read


def test_a_token_shows_what_else_was_probable(page: Page, address: str, explanation: TextExplanation) -> None:
    open_at(page, address)
    place = explanation.num_given + 1
    page.click(f".chip >> nth={place}")
    assert page.inner_text(".alternatives h3") == f"Most probable at position {place + 1}"
    best = explanation.choices[place - 1].alternatives
    assert page.locator(".alternatives li").count() >= len(best)
    assert page.locator(".alternatives li[aria-current='true']").count() == 1
    page.click(".chip >> nth=0")
    assert "Nothing stands before it" in page.inner_text(".alternatives")


def test_tokens_are_reached_with_keys(page: Page, address: str, explanation: TextExplanation) -> None:
    open_at(page, address, f"choice={explanation.num_given - 1}")
    page.focus(".chip[tabindex='0']")
    page.keyboard.press("ArrowRight")  # from the prompt to what was written
    chosen = page.locator(".chip[aria-pressed='true']")
    assert chosen.get_attribute("class") == "chip"
    assert page.locator(".chip:focus").get_attribute("aria-label") == chosen.get_attribute("aria-label")


def test_there_is_one_stack_whose_heads_open_from_their_roles(
    page: Page, address: str, generator: Generator
) -> None:
    open_at(page, address, "view=heads")
    config = generator.model.config
    assert page.locator(".roles button").count() == config.layers * config.heads
    page.click(".roles button >> nth=1")
    assert heading(page) == "Self-attention, layer 1, head 2"
    assert page.locator(".side .choices").count() == 0  # nothing to choose from
    assert page.locator(".thumbnails button").count() == config.layers * (config.heads + 1) + 1


def test_pointing_at_a_token_shows_only_tokens_before_it(page: Page, address: str) -> None:
    open_at(page, address, "view=attention&layer=-1")
    tokens = page.locator(".arcs .token[data-side='from']")
    tokens.nth(0).hover()
    assert page.locator(".lists section").nth(0).locator("li").count() == 1
    tokens.nth(1).hover()
    assert page.locator(".lists section").nth(0).locator("li").count() == 2


def test_a_text_that_is_read_has_no_prompt(page: Page, generator: Generator, save: Save) -> None:
    found = explain_text(generator, PROMPT)
    open_at(page, save(render(found)))
    assert page.locator(".chip").count() == len(found.tokens)
    assert page.locator(".chip.given").count() == 0
    assert found.how in page.inner_text("#view")
    labels = page.locator(".chip bdi").all_inner_texts()
    assert (labels[0], labels[-1]) == ("[BOS]", "[EOS]")


def test_an_answer_stands_below_its_message(page: Page, generator: Generator, save: Save) -> None:
    found = explain_continuation(generator, [Message("user", PROMPT)], OPTIONS)
    open_at(page, save(render(found)))
    assert page.text_content(".text") == f"{PROMPT}\n{visible(found.continuation)}"


@pytest.mark.parametrize("fragment", [f"view={view}" for view in VIEWS])
def test_every_view_is_saved_as_svg_and_png(page: Page, address: str, fragment: str) -> None:
    open_at(page, address, fragment)
    svg = ElementTree.fromstring(downloaded(page, "SVG"))
    assert svg.findall(".//{http://www.w3.org/2000/svg}text")
    assert downloaded(page, "PNG").startswith(b"\x89PNG\r\n")
    assert page.errors == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "fragment", ["view=x&stack=cross&layer=99&head=-7&choice=9999", "step=3&from=9999&words=7"]
)
def test_an_address_that_asks_for_nonsense_still_shows_something(page: Page, address: str, fragment: str) -> None:
    open_at(page, address, fragment)
    assert page.locator("#view svg").count()
    assert page.errors == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_read", [False, True])
def test_hostile_text_is_only_shown(page: Page, generator: Generator, save: Save, is_read: bool) -> None:
    text, name = f"{HOSTILE}\n\t<b>", "<script>window.hit=1</script>"
    if is_read:
        found = explain_text(generator, text, name=name)
    else:
        found = explain_continuation(generator, text, OPTIONS, name=name)
    hostile = save(render(found))
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    for view in VIEWS:
        open_at(page, hostile, f"view={view}&words=1&picture=map&from=3&to=3")
        ElementTree.fromstring(downloaded(page, "SVG"))
    assert "<script>window.hit=1</script>" in page.inner_text(".text")
    assert page.evaluate("window.hit") is None
    assert page.locator("body img, body script:not([type])").count() == 0
    assert dialogs == []
    assert page.errors == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_it_without_scrolling_sideways(page: Page, address: str, view: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_at(page, address, f"view={view}")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


@pytest.mark.parametrize("view", VIEWS)
def test_everything_that_can_be_used_has_a_name(page: Page, address: str, view: str) -> None:
    open_at(page, address, f"view={view}&picture=map")
    nameless = """nodes => nodes.filter((node) =>
        !(node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length)
    ).map((node) => node.outerHTML)"""
    assert page.eval_on_selector_all("button, input, [role=button], [role=img], [role=group]", nameless) == []
