"""The page is one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from sixfold.decode.translate import Translator
from sixfold.explain import TrainingHistory, explain, render, render_training
from sixfold.explain.html_page import EXPORT, IMPORT, asset, with_dependencies

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> \" ' & <!-- \u2028 \u202e \0"
MODULES = sorted(
    path.name.removesuffix(".js")
    for path in files("sixfold.explain").joinpath("browser").iterdir()
    if path.name.endswith(".js")
)


class Elements(HTMLParser):
    """Collects the elements that a browser would create."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.tags and data.strip():
            self.texts[f"{self.tags[-1][0]} {self.tags[-1][1].get('type', '')}"] = data


@pytest.fixture(scope="module")
def page(phrases: Translator) -> str:
    return render(explain(phrases, HOSTILE, name="</title><script>alert(1)</script>"))


def test_a_page_refers_to_no_url_and_no_other_file(page: str) -> None:
    found = set(re.findall(r"[a-z]+://[\w./-]+", page))
    assert found == {"http://www.w3.org/2000/svg"}  # a namespace, not an address
    for _, attributes in Elements(page).tags:
        assert not {"src", "href", "action", "onerror", "onload"} & attributes.keys()


def test_hostile_text_creates_no_element(page: str) -> None:
    tags = [tag for tag, _ in Elements(page).tags]
    assert tags.count("script") == 2
    assert "img" not in tags


def test_the_page_contains_the_data_of_the_explanation(page: str) -> None:
    assert json.loads(Elements(page).texts["script application/json"])["source"] == HOSTILE


def test_the_policy_allows_only_this_script_and_style(page: str) -> None:
    elements = Elements(page)
    [policy] = [
        each["content"] for tag, each in elements.tags if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    for name in ("script module", "style "):
        digest = hashlib.sha256(elements.texts[name].encode()).digest()
        assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy


def test_only_a_live_page_may_connect_to_its_server() -> None:
    history = TrainingHistory("m", "en", "de", 0, 0, 0.0, (), ())
    assert "connect-src 'none'" in render_training(history)
    assert "connect-src 'self'" in render_training(history, is_live=True)


@pytest.mark.parametrize("module", MODULES)
def test_imports_of_a_module_are_exported_by_modules_before_it(module: str) -> None:
    order = with_dependencies(module)
    assert order[-1] == module
    for names, other in IMPORT.findall(asset(f"{module}.js")):
        exported = {name for _, name in EXPORT.findall(asset(f"{other}.js"))}
        assert set(re.findall(r"\w+", names)) <= exported
        assert order.index(other) < order.index(module)


@pytest.mark.parametrize("module", MODULES)
def test_no_module_turns_text_into_markup_or_code(module: str) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|createContextualFragment"
    )
    assert not re.search(forbidden, asset(f"{module}.js"))
