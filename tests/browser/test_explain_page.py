"""The explain page in a real browser: from disk, without a network, with keys, and with hostile text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import torch
from tests.browser.conftest import Save

import sixfold
from sixfold.decode.config import DecodeConfig
from sixfold.decode.options import SearchOptions
from sixfold.decode.translate import Translator
from sixfold.explain import Explanation, explain, measure_head_roles, read_training, render, render_training
from sixfold.explain.live_page import live_training_page
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Route

PHRASES = Path(__file__).parents[1] / "compat" / "format-1-phrases"
MODULES = Path(sixfold.__file__).parent / "explain" / "browser"
SENTENCE = "The waiters are tired and I am travelling to Berlin."
HOSTILE = (
    "</script><script>window.hit=1</script><img src=x onerror=window.hit=1> \"'`${window.hit=1}` & <!-- <s> "
    "\u202eשלום\u202c 🙂 e\u0301 \0\x07\x1b\u2028\ufeff javascript:window.hit=1 <svg onload=window.hit=1>"
)
VIEWS = ("attention", "decoding", "heads", "positions")


@pytest.fixture(scope="module", autouse=True)
def quick(one_core: None) -> None:
    """Use one core: the models are tiny."""


@pytest.fixture(scope="module")
def phrases() -> Translator:
    return sixfold.load(PHRASES, device="cpu")


@pytest.fixture(scope="module")
def explanation(phrases: Translator) -> Explanation:
    lines = (PHRASES.parent / "source-format-1-phrases.txt").read_text(encoding="utf-8").split("\n")
    return explain(phrases, SENTENCE, head_roles=measure_head_roles(phrases, lines[:6]), name="phrases")


@pytest.fixture(scope="module")
def address(explanation: Explanation, save: Save) -> str:
    return save(render(explanation))


@pytest.fixture(scope="module")
def random_model(phrases: Translator) -> Callable[..., Translator]:
    """Return a function that makes a random model with so many layers and heads, narrow enough to be quick."""

    def make(layers: int, heads: int) -> Translator:
        torch.manual_seed(1)
        shape = {"encoder_layers": layers, "decoder_layers": layers, "heads": heads, "d_model": 32, "d_ff": 32}
        model = EncoderDecoder(EncoderDecoderConfig(vocabulary=phrases.tokenizer.vocabulary, **shape))
        return Translator([model], phrases.tokenizer, DecodeConfig(beam=2))

    return make


def open_at(page: Page, address: str, fragment: str = "") -> None:
    """Open a page, and wait until it has drawn something."""
    page.goto(f"{address}#{fragment}")
    page.wait_for_selector("#view svg, #view .roles")


def heading(page: Page) -> str:
    return page.inner_text("#view h2 >> nth=0")


def stopwatch(page: Page) -> Callable[[], float]:
    """Return a function that tells how long the page's main thread has computed, whatever its neighbours do."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    return seconds


def downloaded(page: Page, kind: str) -> bytes:
    """Save the picture that is shown, and return the file."""
    with page.expect_download() as download:
        page.click(f".tools button:text-is('{kind}')")
    return Path(download.value.path()).read_bytes()


def test_it_opens_from_disk_without_a_network_and_without_an_error(
    page: Page, context: BrowserContext, address: str, explanation: Explanation
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    context.set_offline(True)
    for view in VIEWS:
        open_at(page, address, f"view={view}")
        assert page.get_attribute(f"#tab-{view}", "aria-selected") == "true"
    assert page.inner_text(".pair .source .words") == SENTENCE
    assert page.inner_text(".pair .target .words") == explanation.translation
    assert not [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert page.errors == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_every_layer_and_head_has_a_thumbnail_that_opens_it(
    page: Page, address: str, phrases: Translator, stack: str
) -> None:
    open_at(page, address, f"stack={stack}")
    config = phrases.model.config
    layers = config.encoder_layers if stack == "encoder" else config.decoder_layers
    assert page.locator(".thumbnails button").count() == layers * (config.heads + 1) + 1
    page.click(".thumbnails button[data-layer='0'][data-head='1']")
    page.wait_for_selector("h2:has-text('layer 1, head 2')")
    page.click(".thumbnails button[data-layer='-1']")
    page.wait_for_selector("h2:has-text('mean of all layers and heads')")
    colours = (
        "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    )
    page.wait_for_selector(".thumbnails[data-is-drawn]")
    assert page.eval_on_selector(".thumbnails button[data-layer='0'][data-head='0'] canvas", colours) > 3


def test_pointing_at_a_token_shows_what_it_attends_to_and_what_attends_to_it(page: Page, address: str) -> None:
    open_at(page, address, "stack=encoder")
    token = page.locator(".arcs .token[data-side='from']").nth(2)
    token.hover()
    titles = page.locator(".lists h3").all_inner_texts()
    assert [title.split(" ", 1)[1] for title in titles] == ["attends to", "is attended to by"]
    assert page.locator(".lists li").count() >= 4
    page.hover("h2")
    assert page.locator(".lists h3").count() == 0


def test_words_can_be_merged_and_taken_apart_again(page: Page, address: str, explanation: Explanation) -> None:
    open_at(page, address)
    tokens, words = (f".arcs .token[data-side='{side}']" for side in ("from", "to"))
    before = (page.locator(tokens).count(), page.locator(words).count())
    assert before == (len(explanation.target_tokens), len(explanation.source_tokens))
    page.check("#words")
    labels = page.locator(words).all_text_contents()
    assert labels == [*re.findall(r"\w+|\.", SENTENCE), "[EOS]"]
    page.uncheck("#words")
    assert (page.locator(tokens).count(), page.locator(words).count()) == before


def test_everything_can_be_done_with_keys(page: Page, address: str) -> None:
    open_at(page, address, "layer=0&head=0")
    page.focus(".thumbnails button[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h2:has-text('layer 1, head 2')")
    page.focus(".arcs .token[tabindex='0']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".arcs .token[aria-pressed='true']").count() == 1
    assert "attended to" in page.inner_text(".lists h3")
    page.click("button[data-value='map']")
    page.focus("svg.map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.locator(".lists section").count() == 2
    page.focus("#tab-attention")
    page.keyboard.press("ArrowRight")
    assert heading(page) == "Token probabilities"


def test_the_beam_tree_is_stepped_through(page: Page, address: str, explanation: Explanation) -> None:
    open_at(page, address, "view=decoding")
    last = max(node.step for node in explanation.tree.nodes) + 1
    assert page.locator(".tree .node").count() == len(explanation.tree.nodes)
    page.click("button[aria-label='First step']")
    for step in (1, 2, 3):
        nodes = [node for node in explanation.tree.nodes if node.step < step]
        assert page.inner_text(".status").startswith(f"Step {step} of {last}:")
        assert page.locator(".tree .node").count() == len(nodes)
        for fate in ("kept", "pruned"):
            shown = page.locator(f".tree .node[data-fate='{fate}']").count()
            assert shown == len([node for node in nodes if node.fate == fate])
        page.click("button[aria-label='Next step']")
    page.click("button[aria-label='Last step']")
    assert page.inner_text("tr.winner td >> nth=0") == explanation.translation


def test_a_token_shows_what_else_was_considered(page: Page, address: str, explanation: Explanation) -> None:
    open_at(page, address, "view=decoding")
    page.click(".chip >> nth=1")
    shown = page.locator(".alternatives li").all_inner_texts()
    assert len(shown) >= len(explanation.choices[1].alternatives)
    assert page.locator(".alternatives li[aria-current='true']").count() == 1


@pytest.mark.parametrize("fragment", ["", "picture=map&from=1&to=2", *(f"view={view}" for view in VIEWS[1:])])
def test_every_view_is_saved_as_svg_and_png(page: Page, address: str, fragment: str) -> None:
    open_at(page, address, fragment)
    svg = ElementTree.fromstring(downloaded(page, "SVG"))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.findall(".//{http://www.w3.org/2000/svg}text")
    assert downloaded(page, "PNG").startswith(b"\x89PNG\r\n")
    assert page.errors == []  # type: ignore[attr-defined]


def test_the_address_restores_the_view(page: Page, context: BrowserContext, address: str) -> None:
    open_at(page, address, "stack=encoder")
    page.click(".thumbnails button[data-layer='0'][data-head='0']")
    page.check("#words")
    page.click("button[data-value='map']")
    page.focus("svg.map")
    page.keyboard.press("ArrowRight")
    other = context.new_page()
    other.goto(page.url)
    other.wait_for_selector(".lists section")
    for selector in ("#view h2", ".lists"):
        assert other.inner_text(selector) == page.inner_text(selector)
    assert other.is_checked("#words")


@pytest.mark.parametrize(
    "fragment",
    ["view=x&stack=__proto__&layer=99&head=-7", "from=9999&to=9999&words=7&picture=<b>", "%%%&layer=1e9"],
)
def test_an_address_that_asks_for_nonsense_still_shows_something(page: Page, address: str, fragment: str) -> None:
    open_at(page, address, fragment)
    assert page.locator("#view svg").count()
    assert page.errors == []  # type: ignore[attr-defined]


def test_hostile_text_is_only_shown(page: Page, phrases: Translator, save: Save) -> None:
    found = explain(phrases, HOSTILE, SearchOptions(max_length=20), name="<script>window.hit=1</script>")
    hostile = save(render(found))
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    for view in VIEWS:
        for words in (0, 1):
            open_at(page, hostile, f"view={view}&stack=encoder&words={words}&picture=map&from=3&to=3")
            ElementTree.fromstring(downloaded(page, "SVG"))
    assert "<script>window.hit=1</script>" in page.inner_text(".pair .source")
    assert page.evaluate("window.hit") is None
    assert page.locator("body img, body script:not([type])").count() == 0
    assert dialogs == []
    assert page.errors == []  # type: ignore[attr-defined]


def test_a_sentence_of_the_papers_model_opens_within_a_second(
    page: Page, random_model: Callable[..., Translator], save: Save
) -> None:
    words = "Two young men and an old woman are standing on a long ladder and cleaning the windows of my house."
    content = render(explain(random_model(6, 8), words, SearchOptions(max_length=30)))
    assert len(content.encode()) <= 2_000_000
    seconds = stopwatch(page)
    open_at(page, save(content))
    page.wait_for_selector(".thumbnails[data-is-drawn]")
    assert page.locator(".thumbnails canvas").count() == 6 * 9 + 1
    assert seconds() < 1.0


def test_512_tokens_open_and_answer(page: Page, random_model: Callable[..., Translator], save: Save) -> None:
    model = random_model(3, 4)
    text = "the dog is here and I see it " * 80
    ids = model.tokenizer.encode(text)[:511]
    content = render(explain(model, model.tokenizer.decode(ids), SearchOptions(max_length=24)))
    assert len(content.encode()) < 8_000_000
    seconds = stopwatch(page)
    open_at(page, save(content), "stack=encoder&layer=2&head=3")
    assert page.locator("svg.map").count() == 1
    assert "largest weights of each row are stored" in page.inner_text(".main p")
    page.wait_for_selector(".thumbnails[data-is-drawn]")
    page.focus("svg.map")
    before = seconds()
    for _ in range(10):
        page.keyboard.press("ArrowDown")
    assert page.locator(".lists section").count() == 2
    assert seconds() - before < 2.0
    assert page.errors == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_it_without_scrolling_sideways(page: Page, address: str, view: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_at(page, address, f"view={view}")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_light_and_dark_follow_the_system_until_one_is_chosen(page: Page, address: str) -> None:
    def lightness(theme: str) -> int:
        page.wait_for_selector(f"html[data-theme='{theme}']")
        numbers = re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))
        return sum(map(int, numbers[:3]))

    page.emulate_media(color_scheme="dark")
    open_at(page, address)
    assert lightness("dark") < 150
    page.emulate_media(color_scheme="light")
    assert lightness("light") > 600
    page.click("button[aria-label^='Theme']")
    assert lightness("dark") < 150
    assert "theme=dark" in page.url


@pytest.mark.parametrize("view", VIEWS)
def test_everything_that_can_be_used_has_a_name(page: Page, address: str, view: str) -> None:
    open_at(page, address, f"view={view}&picture=map")
    nameless = """nodes => nodes.filter((node) =>
        !(node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length)
    ).map((node) => node.outerHTML)"""
    assert page.eval_on_selector_all("button, input, [role=button], [role=img], [role=group]", nameless) == []


def test_the_picture_of_positions_is_the_papers_formula(page: Page, address: str, phrases: Translator) -> None:
    open_at(page, address, "view=positions&position=5&dimension=6")
    page.wait_for_selector("svg.map[aria-label]")
    expected = math.sin(5 / 10000 ** (6 / phrases.model.config.d_model))
    shown = re.search(r"position 5, dimension 6, (-?[\d.]+)\.", page.get_attribute("svg.map", "aria-label") or "")
    assert shown
    assert float(shown[1]) == pytest.approx(expected, abs=0.02)


@pytest.fixture
def modules(page: Page) -> Page:
    """Open an empty page that can import the modules as they are."""

    def answer(route: Route) -> None:
        name = route.request.url.rsplit("/", 1)[1]
        if name.endswith(".js"):
            route.fulfill(body=(MODULES / name).read_text(encoding="utf-8"), content_type="text/javascript")
        else:
            route.fulfill(body="<!DOCTYPE html>", content_type="text/html")

    page.route("**/*", answer)
    page.goto("http://modules.test/")
    return page


def test_rows_of_merged_words_still_sum_to_one(modules: Page) -> None:
    weights = torch.randn(7, 9).softmax(dim=-1)
    tokens = [[0, 0, 1, 2, 2, 2, -1], [0, 1, 1, 1, 2, 3, 3, 4, -1]]
    found = modules.evaluate(
        """async ([values, sides]) => {
            const { groupsOf, merged } = await import("/attention_matrix.js");
            const groups = sides.map((side) => groupsOf(side.map((word) => ({ word })), true));
            const matrix = { rows: 7, columns: 9, values: Float32Array.from(values) };
            const { rows, columns, values: result } = merged(matrix, ...groups);
            return [rows, columns, [...result]];
        }""",
        [weights.flatten().tolist(), tokens],
    )
    assert found[:2] == [4, 6]
    merged = torch.tensor(found[2]).view(4, 6)
    torch.testing.assert_close(merged.sum(dim=1), torch.ones(4))
    torch.testing.assert_close(merged[0, 1], weights[:2, 1:4].sum(dim=1).mean())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_change_steadily_in_lightness(modules: Page, theme: str) -> None:
    colours = modules.evaluate(
        """async (theme) => {
            document.documentElement.dataset.theme = theme;
            return (await import("/colour.js")).weightColours();
        }""",
        theme,
    )
    greys = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in colours]
    steps = [other - one for one, other in pairwise(greys)]
    assert all(step >= -0.6 for step in steps) or all(step <= 0.6 for step in steps)
    assert abs(greys[-1] - greys[0]) > 120


def test_heads_like_the_papers_figures_have_long_distance_sharp_attention_or_distinct_roles(modules: Page) -> None:
    def head(distance: float, max_weight: float, **weights: float) -> dict[str, object]:
        return {
            "distance": distance,
            "max_weight": max_weight,
            "weights": dict.fromkeys(("self", "previous", "next", "delimiter"), 0.1) | weights,
        }

    layers = [[head(9, 0.2), head(1, 0.9, previous=0.9)], [head(3, 0.8), head(2, 0.5, delimiter=0.7)]]
    found = modules.evaluate("async (roles) => (await import('/paper_figures.js')).figureHeads(roles, 1)", layers)
    places = {name: [(each["layer"], each["head"]) for each in heads] for name, heads in found.items()}
    assert places["distant"] == [(0, 0)]
    assert places["sharp"] == [(1, 0)]
    best = dict(zip((each["role"] for each in found["roles"]), places["roles"], strict=True))
    assert best["delimiter"] == (1, 1)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Write the metrics log of a short training whose sample is hostile text."""
    (tmp_path / "model" / "training").mkdir(parents=True)
    records: list[dict[str, object]] = [
        {"kind": "step", "step": step, "loss": 9 / step, "grad_norm": 1.0, "learning_rate": step * 1e-4,
         "targets": 500, "epoch": 0, "seconds": step / 2} for step in range(1, 31)
    ]  # fmt: skip
    sample = {"given": HOSTILE, "answer": HOSTILE, "expected": "the dog"}
    records += [
        {"kind": "validation", "step": step, "loss": 5 / step, "score_name": "BLEU", "score": float(step),
         "is_best": True, "weights": "single", "sample": sample} for step in (10, 20, 30)
    ]  # fmt: skip
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "model" / "training" / "log.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path / "model"


def test_a_training_is_shown_from_disk(page: Page, trained: Path, save: Save) -> None:
    page.goto(save(render_training(read_training(trained))))
    assert page.locator(".charts svg").count() == 4
    assert page.locator(".samples li").count() == 2 + 3
    assert "30" in page.inner_text(".facts")
    assert page.evaluate("window.hit") is None
    assert page.errors == []  # type: ignore[attr-defined]


def test_a_live_page_follows_the_training(page: Page, trained: Path) -> None:
    log = trained / "training" / "log.jsonl"
    with live_training_page(trained) as live:
        page.goto(live)
        assert page.inner_text(".facts b >> nth=0") == "30"
        step = json.loads(log.read_text(encoding="utf-8").split("\n", 1)[0]) | {"step": 31}
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(step) + "\n")
        page.wait_for_selector(".facts b:text-is('31')", timeout=20_000)
        assert page.errors == []  # type: ignore[attr-defined]


def test_tokens_of_any_tokenizer_have_a_label_and_a_text(modules: Page) -> None:
    pieces = [
        "\u2581dog",
        "dogs",
        "\u2581",
        "\u2581\u2581\u2581",
        "<0xE2><0x80>",
        "<0x0A>",
        "\n",
        "\u2581\t",
        "<s>",
        "<|end|>",
        "!",
    ]
    labels, text = modules.evaluate(
        """async (pieces) => {
            const { textOf, tokenLabel } = await import("/token_text.js");
            return [pieces.map(tokenLabel), textOf(["\u2581a\u2581", "<0xE2><0x80>", "<0x99>", "s"])];
        }""",
        pieces,
    )
    assert labels == [
        "dog",
        "\u00b7dogs",
        "\u2423",
        "\u2423\u2423\u2423",
        "\u2039E2 80\u203a",
        "\u21b5",
        "\u21b5",
        "\u2423\u21e5",
        "[BOS]",
        "<|end|>",
        "!",
    ]
    assert text == "a \u2019s"
