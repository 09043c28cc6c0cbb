"""HTML: sentences are translated, tags stay."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.text.documents import Part, has_words, plain_parts
from sixfold.text.markup import html_parts

TAGS = [
    "<b>",
    "</b>",
    "<p>",
    "</p>",
    "<br>",
    "<br/>",
    '<a href="x>y">',
    "</a>",
    "<img alt='<b>'>",
    "<!-- c -->",
    "<i >",
]
PIECES = [
    *TAGS,
    "One. ",
    "two",
    " ",
    "\n",
    "&lt;",
    "&amp;",
    "&nbsp;",
    "<",
    ">",
    "&",
    "é",
    "<b",
    "<script>x</script>",
]
PIECES += ["<code>a < b</code>", "<", "<!--", "<script>", '"', "7>", "<b 0>"]


def parts(text: str) -> list[Part]:
    return html_parts(text, "en", lambda part: len(part) <= 500)


def given_to_the_model(text: str) -> list[str]:
    return [part.given for part in parts(text) if part.given]


def translated(text: str) -> str:
    """Return a text after a translation that changes nothing."""
    return "".join(part.finish(part.given) if part.given else part.text for part in parts(text))


def in_capitals(text: str) -> str:
    """Return a text after a translation that writes capitals, but leaves tags."""

    def loud(given: str) -> str:
        return re.sub(r"(<[A-Za-z/][^>]*>)|([^<]+|<)", lambda match: match[1] or match[2].upper(), given)

    return "".join(part.finish(loud(part.given)) if part.given else part.text for part in parts(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>One <b>two</b>.</p>", "<p>ONE <b>TWO</b>.</p>"),
        ("One.<br>Two.", "ONE.<br>TWO."),
        ("a &lt;b&gt; &amp; c", "A &lt; B&gt; &amp; C"),
        ("Use <code>ls -l</code> here", "USE <code>ls -l</code> HERE"),
        ("<script>let a = 'text';</script>text", "<script>let a = 'text';</script>TEXT"),
        ('<a href="/x?a=1&amp;b=2" title="a > b">here</a>', '<a href="/x?a=1&amp;b=2" title="a > b">HERE</a>'),
        ("<pre>as it is</pre><!-- and this -->", "<pre>as it is</pre><!-- and this -->"),
        ("<ul><li>one</li> <li>two</li></ul>", "<ul><li>ONE</li> <li>TWO</li></ul>"),
        ("<b>One. Two.</b> Three.", "<b>ONE. TWO.</b> THREE."),
        ('<p translate="no">As <i>it</i> is.</p>text', '<p translate="no">As <i>it</i> is.</p>TEXT'),
        (
            "See <a\n  href='/x'\n>this</a> <i translate=no>as is</i>",
            "SEE <a\n  href='/x'\n>THIS</a> <i translate=no>as is</i>",
        ),
        ('<div><p translate="no">as is</div>text', '<div><p translate="no">as is</div>TEXT'),
        ('<img translate="no"> text', '<img translate="no"> TEXT'),
        ('<p translate="yes" title="translate=no">one', '<p translate="yes" title="translate=no">ONE'),
        ("<svg><svg></svg>a</svg>b", "<svg><svg></svg>a</svg>B"),
        ("<style>p > a { } </styles></style >text", "<style>p > a { } </styles></style >TEXT"),
        ('one <a title="x>two', 'ONE <a title="x>TWO'),
        ("one <two, three", "ONE &lt; TWO, THREE"),
    ],
)
def test_text_is_translated_and_markup_is_not(text: str, expected: str) -> None:
    assert in_capitals(text) == expected


def test_sentences_are_given_one_by_one_with_numbered_tags() -> None:
    assert given_to_the_model("<p>See <a href='x'>this</a>. <i>And that.</i></p>") == [
        "See <a 0>this</a 1>.",
        "<i 2>And that.</i 3>",
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join))
def test_a_translation_that_changes_nothing_keeps_every_tag_and_every_word(text: str) -> None:
    result = translated(text)
    kept = [part.text for part in parts(text) if not part.given]
    assert all(piece in result for piece in kept)
    spaced = re.compile(r"<\s*")  # what only looks like a tag gets a space
    assert spaced.sub("<", html.unescape(result)) == spaced.sub("<", html.unescape(text))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=20))
def test_whatever_a_model_writes_adds_no_tag(text: str, written: str) -> None:
    hostile = f"<script>alert(1)</script><b 0><b 99>{written}<img src=x onerror=alert(1)>"
    for part in parts(text):
        if part.given:
            tags = re.findall(r"<[A-Za-z/][^>]*>", part.finish(hostile))
            known = re.findall(r"<[A-Za-z/][^>]*>", part.text)
            assert all(tag in known for tag in tags)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_plain_text_is_never_lost(text: str) -> None:
    found = plain_parts(text, "en", lambda part: len(part) <= 10)
    assert "".join(part.given or part.text for part in found) == text
    assert all(has_words(part.given) for part in found if part.given)
