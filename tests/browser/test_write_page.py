"""The page to write on, in a real browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route
    from tests.conftest import Served

PROMPT = "one two three"
HOSTILE = (
    '<img src=x onerror="window.hit=1"><script>window.hit=1</script> "\'><svg onload=window.hit=1> '
    "javascript:window.hit=1 </div><iframe srcdoc='<script>parent.hit=1</script>'>"
)


@pytest.fixture
def opened(page: Page, writing_server: Served) -> Page:
    """Open the page; a request to another server is blocked and counted as an error."""

    def block_other_servers(route: Route) -> None:
        if route.request.url.startswith(writing_server.address):
            route.continue_()
        else:
            page.errors.append(route.request.url)  # type: ignore[attr-defined]
            route.abort()

    page.route("**/*", block_other_servers)
    open_page(page, writing_server)
    return page


def open_page(page: Page, served: Served) -> None:
    """Open the page, and let it always take the most probable token."""
    page.goto(served.address)
    page.wait_for_selector("#model option", state="attached")
    slide(page, "temperature", 0)


def slide(page: Page, name: str, value: int) -> None:
    """Move a slider."""
    page.locator(f"#{name}").evaluate("(each, value) => { each.value = value }", value)
    page.locator(f"#{name}").dispatch_event("input")


def errors(page: Page) -> list[str]:
    found: list[str] = page.errors  # type: ignore[attr-defined]
    return found


def write(page: Page, text: str, length: int = 12) -> None:
    """Let the model go on with a text."""
    slide(page, "length", length)
    page.click("#text-mode")
    page.fill("#text", text)
    page.click("#write")
    wait_until_written(page)


def wait_until_written(page: Page) -> None:
    page.wait_for_selector(".token")
    page.wait_for_selector("#write", state="visible")


def tokens(page: Page) -> list[str]:
    """Return the tokens that are shown."""
    found: list[str] = page.evaluate("[...document.querySelectorAll('.token')].map(each => each.textContent)")
    return found


def completed(served: Served, prompt: str | list[int], length: int = 12) -> str:
    """Return how the model goes on with a prompt."""
    fields = {"model": "parrot", "prompt": prompt, "max_tokens": length, "temperature": 0}
    found: str = httpx.post(f"{served.address}/v1/completions", json=fields).json()["choices"][0]["text"]
    return found


def stream_of(tokens: list[dict[str, Any]]) -> str:
    """Return a stream that writes these tokens."""
    parts = [{"index": 0, "text": "", "logprobs": None, "finish_reason": None, "prompt_token_ids": [1, 2]}]
    for place, token in enumerate(tokens):
        ends = "stop" if place == len(tokens) - 1 else None
        parts.append({"index": 0, "text": token["token"], "logprobs": {"content": [token]}, "finish_reason": ends})
    return "".join(f"data: {json.dumps({'choices': [part]})}\n\n" for part in parts) + "data: [DONE]\n\n"


def token(text: str, number: int, others: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a token as the server tells it."""
    alternatives = [token(each, 500 + place) for place, each in enumerate(others)]
    found = {"token": text, "bytes": [*text.encode()], "logprob": -0.5, "token_id": number}
    return {**found, "top_logprobs": [found, *alternatives]} if others else found


def test_a_text_grows_by_what_the_model_writes_without_requests_to_other_servers(
    opened: Page, writing_server: Served
) -> None:
    write(opened, PROMPT)
    assert "".join(tokens(opened)) == completed(writing_server, PROMPT)
    colours = opened.evaluate(
        "[...document.querySelectorAll('.token')].map(each => [getComputedStyle(each).backgroundColor, "
        "each.style.getPropertyValue('--surprise')])"
    )
    assert len({colour for colour, _ in colours}) == len({surprise for _, surprise in colours}) > 1
    assert "tokens" in opened.inner_text("#status")
    assert errors(opened) == []


def test_a_click_shows_what_else_could_have_stood_there_and_choosing_it_goes_on_from_it(
    opened: Page, writing_server: Served
) -> None:
    write(opened, PROMPT)
    before = tokens(opened)
    opened.locator(".token").nth(3).click()
    shares = [each.strip("<% ") for each in opened.locator("#alternatives .percent").all_inner_texts()]
    assert [*map(float, shares)] == sorted(map(float, shares), reverse=True)
    assert opened.locator("#alternatives .chosen").count() == 1
    other = opened.locator("#alternatives button:not(.chosen):not(:disabled)").first
    with opened.expect_request("**/v1/completions") as request:
        other.click()
    wait_until_written(opened)
    sent = request.value.post_data_json["prompt"]
    assert isinstance(sent[0], int)  # token ids: nothing is tokenized anew
    assert tokens(opened)[:3] == before[:3]
    assert tokens(opened)[3] != before[3]
    assert "".join(tokens(opened)[4:]) == completed(writing_server, sent)
    assert errors(opened) == []


def test_a_text_that_was_edited_is_sent_as_text(opened: Page) -> None:
    write(opened, PROMPT, length=4)
    shown = PROMPT + "".join(tokens(opened))
    opened.focus("#text")
    opened.keyboard.press("Control+End")
    opened.keyboard.type(" four")
    with opened.expect_request("**/v1/completions") as request:
        opened.keyboard.press("Control+Enter")
    assert request.value.post_data_json["prompt"] == shown + " four"


def test_a_conversation_sends_what_was_said_before(opened: Page) -> None:
    slide(opened, "length", 8)
    opened.click("#chat-mode")
    opened.fill("#message", "one two")
    opened.keyboard.press("Enter")
    wait_until_written(opened)
    first = "".join(tokens(opened))
    opened.fill("#message", "three")
    with opened.expect_request("**/v1/chat/completions") as request:
        opened.keyboard.press("Enter")
    talk = [("user", "one two"), ("assistant", first), ("user", "three")]
    assert [(each["role"], each["content"]) for each in request.value.post_data_json["messages"]] == talk
    opened.wait_for_selector("#write", state="visible")
    assert opened.locator(".said").count() == 4
    assert errors(opened) == []


def test_escape_stops_the_text_and_what_is_there_stays(page: Page, writing_server: Served) -> None:
    page.route("**/v1/completions", lambda _: None)  # never answered
    open_page(page, writing_server)
    page.click("#text-mode")
    page.fill("#text", PROMPT)
    page.click("#write")
    page.wait_for_selector("#stop", state="visible")
    page.keyboard.press("Escape")
    page.wait_for_selector("#write", state="visible")
    assert page.inner_text("#status") == "Stopped."
    assert page.inner_text("#text") == PROMPT


def test_hostile_text_stays_text(page: Page, writing_server: Served) -> None:
    tokens = [token(HOSTILE, 5, others=(HOSTILE, "<b>bold</b>")), token("</span><script>window.hit=1</script>", 6)]
    answer = {"content_type": "text/event-stream", "body": stream_of(tokens)}
    page.route("**/v1/completions", lambda route: route.fulfill(**answer))
    listed = {"data": [{"id": HOSTILE, "has_chat": True, "max_model_len": 256}] * 2}
    page.route("**/v1/models", lambda route: route.fulfill(json=listed))
    refused = {"error": {"message": HOSTILE}}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=400, json=refused))
    open_page(page, writing_server)
    page.fill("#message", HOSTILE)
    page.keyboard.press("Enter")
    page.locator("#status", has_text="<img").wait_for()
    assert page.locator(".said").first.evaluate("each => each.textContent") == HOSTILE
    page.click("#text-mode")
    page.fill("#text", HOSTILE)
    page.click("#write")
    page.wait_for_selector("#text .token >> nth=1")
    page.locator("#text .token").first.click()
    assert page.locator("#alternatives button").count() == 3
    page.wait_for_timeout(300)  # time for an attack to run
    hostile = "#text, #messages, #alternatives, #status, #model"
    assert page.locator(f":is({hostile}) :is(img, script, svg, iframe, a, b)").count() == 0
    assert page.evaluate("window.hit") is None


def test_a_phone_shows_it_all_without_scrolling_sideways(browser: Browser, writing_server: Served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    open_page(page, writing_server)
    write(page, "one two " * 8 + "x" * 120)
    page.locator("#text .token").last.tap()
    page.wait_for_selector("#alternatives button")
    box = page.locator("#alternatives").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_every_control_has_a_name_for_screen_readers(opened: Page) -> None:
    write(opened, PROMPT)
    nameless = opened.evaluate(
        """[...document.querySelectorAll("button, select, input, textarea, [role], [tabindex], section, dialog")]
        .filter((each) => !(each.textContent.trim() || each.ariaLabel || each.title || each.labels?.length))
        .map((each) => each.outerHTML)"""
    )
    assert nameless == []
