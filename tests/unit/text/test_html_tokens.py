"""HTML keeps its tags, in order and byte for byte, as an independent reader of HTML finds them."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.text import html_tokens as module
from sixfold.text.html_tokens import html_tokens
from sixfold.text.markup import html_parts

PICTURE = f'<img\n  src="data:image/png;base64,{"iVBORw0KGgo>" * 1000}"\n>'

# Documents


def quoted(value: str) -> str:
    """Return a value as an attribute has it."""
    return f"'{value}'" if '"' in value else f'"{value}"'


VALUES = st.one_of(
    st.sampled_from(["", "/x?a=1&amp;b=2", "a > b", "</b>", "<!--", 'say "no"', "zwei\nZeilen", "translate=no"]),
    st.integers(2000, 6000).map("data:,>".__mul__),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="'"), max_size=9),
).map(quoted)
BLANKS = st.sampled_from([" ", "\n", "  \n\t "])
ATTRIBUTES = st.lists(
    st.tuples(
        BLANKS, st.sampled_from(["href", "title", "data-x", "ID"]), st.sampled_from(["=", " = ", "\n=\n"]), VALUES
    ).map("".join)
    | st.tuples(BLANKS, st.sampled_from(["hidden", "lang=en", "x=1"])).map("".join),
    max_size=3,
).map("".join)
WORDS = st.lists(
    st.sampled_from(["one", "two.", "Three", "&lt;b&gt;", "5 < 6", "&amp;", " ", "\n"]), max_size=4
).map(" ".join)


@st.composite
def elements(draw: st.DrawFn, content: st.SearchStrategy[str]) -> str:
    """Return an element, some of which are not to be translated."""
    name = draw(st.sampled_from(["a", "b", "I", "p", "DIV", "li", "span", "code", "svg", "x-note"]))
    no = draw(st.sampled_from(["", "", ' translate="no"', "\ntranslate = NO"]))
    end = draw(st.sampled_from(["", " ", "\n"]))
    return f"<{name}{draw(ATTRIBUTES)}{no}{end}>{draw(content)}</{name}{end}>"


ALONE = st.one_of(
    st.tuples(st.sampled_from(["<br", "<img", "<hr"]), ATTRIBUTES, st.sampled_from([">", " />", "\n>"])).map(
        "".join
    ),
    st.sampled_from(
        ["<!-- <b> one -->", "<!DOCTYPE html>", "<script>if (a<b) '</b>'</script>", "<style>a>b{}</style >"]
    ),
)
DOCUMENTS = st.recursive(
    st.one_of(WORDS, ALONE),
    lambda inner: st.one_of(elements(inner), st.lists(inner, max_size=4).map("".join)),
    max_leaves=8,
)


class Reading(HTMLParser):
    """What Python's own parser finds in a document: its markup, and the text that is not to be translated."""

    NOT_TRANSLATED = ("code", "svg", "script", "style")

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[str] = []
        self.open: list[bool] = []  # for each open element, whether it is translated
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(self.get_starttag_text() or "")
        if tag not in ("br", "img", "hr"):
            no = dict(attrs).get("translate", "")
            self.open.append(tag not in self.NOT_TRANSLATED and (no or "").lower() != "no")

    def handle_startendtag(self, *_: object) -> None:
        self.found.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"</{tag}>")
        if self.open:
            self.open.pop()

    def handle_comment(self, data: str) -> None:
        self.found.append(data)

    def handle_decl(self, decl: str) -> None:
        self.found.append(decl)

    def handle_data(self, data: str) -> None:
        if not all(self.open):
            self.found.append(data)


def translated(document: str, translate: Callable[[str], str]) -> str:
    """Return a document whose sentences were translated."""
    parts = html_parts(document, "en", lambda part: len(part) <= 500)
    return "".join(part.finish(translate(part.given)) if part.given else part.text for part in parts)


def loud(text: str) -> str:
    """Translate into capitals."""
    return re.sub(r"(<[A-Za-z/][^>]*>)|([^<]+|<)", lambda match: match[1] or match[2].upper(), text)


@settings(max_examples=500, deadline=None)
@given(DOCUMENTS)
def test_the_tags_of_a_translated_document_are_the_same_in_order_and_byte_for_byte(document: str) -> None:
    assert Reading(translated(document, loud)).found == Reading(document).found


@settings(max_examples=200, deadline=None)
@given(
    st.lists(DOCUMENTS | st.sampled_from(["<a ", '<b x="', "</", "<!", "<!--", "<script>", ">", "<"])).map("".join)
)
def test_the_tokens_of_any_document_are_together_the_document(document: str) -> None:
    assert "".join(token.text for token in html_tokens(document)) == document


def test_a_picture_of_twelve_thousand_characters_inside_a_sentence_comes_back() -> None:
    assert translated(f"<p>See {PICTURE} here.</p>", loud) == f"<p>SEE {PICTURE} HERE.</p>"


@pytest.mark.parametrize("text", ["&#" + "9" * 5000 + ";", "&#x" + "9" * 5000])
def test_a_character_number_without_end_is_an_unknown_character(text: str) -> None:
    assert translated(f"a {text} b", loud) == "A \ufffd B"


# Time


class Counted:
    """A pattern that counts the characters it looks at."""

    seen = 0

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.count(self.pattern.match(text, start), text, start)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.count(self.pattern.search(text, start), text, start)

    def count(self, found: re.Match[str] | None, text: str, start: int) -> re.Match[str] | None:
        Counted.seen += (found.end() if found else len(text)) - start
        return found


def work(document: str) -> int:
    """Return how many characters patterns look at, and how many functions are called, to read a document."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    Counted.seen = 0
    sys.setprofile(count)
    try:
        html_parts(document, "en", lambda part: len(part) <= 500)
    finally:
        sys.setprofile(None)
    return Counted.seen + calls


UNITS = [
    "<",
    "<a ",
    '<a "',
    "<a b='>",
    "<a b=\"'>",
    "<!--",
    "<!",
    "</",
    "<script>",
    "</script",
    "<b>",
    "</b>",
    "&lt;",
]
UNITS += [
    "<a '\"",
    "<code>",
    "<p translate=no>",
    "<p translate=no></p>",
    "<a translate ////>",
    "<div>",
    "&#9",
    PICTURE,
]


LONG_TAGS = [
    ("<a data-translate", "/", ">"),
    ("<a data-translate ", "x=y ", ">"),
    ("<p title='", ">", "'>"),
    ("<p title='", ">", ""),
]


@pytest.mark.parametrize(("begin", "unit", "end"), [*(("", unit, "") for unit in UNITS), *LONG_TAGS])
def test_twice_the_html_is_twice_the_work(
    begin: str, unit: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MARKUP", "MARKUP_BEGINS", "NEXT_ATTRIBUTE", "TAG_NAME"):
        monkeypatch.setattr(module, name, Counted(getattr(module, name)))
    closing_tag = module.closing_tag
    monkeypatch.setattr(module, "closing_tag", lambda name: Counted(closing_tag(name)))
    count = max(8000 // len(unit), 2)
    once, twice = (begin + times * count * unit + end for times in (1, 2))
    assert work(twice) < 2.5 * work(once)


@pytest.mark.parametrize(("begin", "unit", "end"), [*(("", unit, "") for unit in UNITS), *LONG_TAGS])
def test_twice_the_html_takes_about_twice_the_time(begin: str, unit: str, end: str) -> None:
    def seconds(count: int) -> float:
        document = begin + unit * (count // len(unit) + 1) + end
        began = time.thread_time()
        html_parts(document, "en", lambda part: len(part) <= 500)
        return time.thread_time() - began

    seconds(100)
    small, large = min(seconds(5_000) for _ in range(3)), min(seconds(20_000) for _ in range(2))
    assert large < 8 * small + 0.02  # what patterns do inside cannot be counted; the square would be 16 times
