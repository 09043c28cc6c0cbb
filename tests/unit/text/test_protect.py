"""Protected spans survive whatever the model does, at the place of the words they stood with."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.text import protect as module
from sixfold.text.protect import at_the_end
from sixfold.text.put_back import put_back
from sixfold.text.spans import spans_of, survives, take_out
from sixfold.text.words import Link, words

GERMAN = {
    "you": "du",
    "have": "hast",
    "messages": "Nachrichten",
    "see": "siehe",
    "the": "die",
    "old": "alte",
    "new": "neue",
}


def protect(texts: Sequence[str], translate: module.Translate, align: module.Align) -> list[str]:
    """Return only the texts."""
    return [each.text for each in module.protect(texts, translate, align)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "See https://example.org/a?b=c#d, or www.example.org.",
            ["https://example.org/a?b=c#d", "www.example.org"],
        ),
        ("(http://example.org/x) “https://a.b/c”", ["http://example.org/x", "https://a.b/c"]),
        ("Go to https://x.org/a?d={name}.", ["https://x.org/a?d={name}"]),
        ("(see https://x.org/a_(b)), then", ["https://x.org/a_(b)"]),
        ("Write to jane.doe+x@mail.example.org.", ["jane.doe+x@mail.example.org"]),
        (
            "Hello {name}, {0} {{ user }} ${x} %{y} {n:,.2f}",
            ["{name}", "{0}", "{{ user }}", "${x}", "%{y}", "{n:,.2f}"],
        ),
        ("%s of %(total)d, %1$s, %-5.2f, %%", ["%s", "%(total)d", "%1$s", "%-5.2f", "%%"]),
        ('a <b>bold</b> word<br/>and <a href="x">link</a>', ["<b>", "</b>", "<br/>", '<a href="x">', "</a>"]),
        ("100% sure, 5%discount, 3 < 4 > 2, a@b, {two words}, : ) 10:30", []),
    ],
)
def test_spans_are_found_and_nothing_else(text: str, expected: list[str]) -> None:
    assert spans_of(text) == expected


def word_by_word(texts: Sequence[str], _: Sequence[tuple[str, ...]]) -> list[str]:
    """Translate word by word, and lose everything that is no word."""
    return [
        " ".join(GERMAN.get(text[a:b].lower(), text[a:b]) for a, b in words(text) if text[a].isalpha())
        for text in texts
    ]


def one_by_one(sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
    """Align the words of the source with those of the target, in order, as far as there are any."""
    return [
        [Link(*a, *b, weight=1.0) for a, b in zip(alphabetic(source), alphabetic(target), strict=False)]
        for source, target in zip(sources, targets, strict=True)
    ]


def alphabetic(text: str) -> list[tuple[int, int]]:
    """Return the words of a text that are no signs."""
    return [(start, end) for start, end in words(text) if text[start].isalpha()]


def backwards(sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
    """Align the first word with the last."""
    return [
        [Link(*a, *b, weight=1.0) for a, b in zip(alphabetic(source), alphabetic(target)[::-1], strict=False)]
        for source, target in zip(sources, targets, strict=True)
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("you have %s messages", "du hast %s Nachrichten"),
        ("you {name} have messages", "du {name} hast Nachrichten"),
        ("see https://example.org/x", "siehe https://example.org/x"),
        ("{name}, you have messages", "{name} du hast Nachrichten"),
        ("you <b>have</b> messages", "du <b>hast</b> Nachrichten"),
        ("you <b>have <i>old</i></b> messages", "du <b>hast <i>alte</i></b> Nachrichten"),
        ('<p>you have <a href="/m">%d messages</a></p>', '<p>du hast <a href="/m">%d Nachrichten</a></p>'),
        ("you have<br/>messages", "du hast <br/>Nachrichten"),
        ("<b></b> you", "<b></b>du"),
    ],
)
def test_lost_spans_come_back_at_the_aligned_place(source: str, expected: str) -> None:
    assert protect([source], word_by_word, one_by_one) == [expected]


def test_tags_follow_their_words_when_the_order_changes() -> None:
    def turn_round(texts: Sequence[str], _: Sequence[tuple[str, ...]]) -> list[str]:
        return [" ".join(text.split()[::-1]) for text in texts]

    assert protect(["<b>one</b> two <i>three</i>"], turn_round, backwards) == ["<i>three</i> two <b>one</b>"]


def test_a_model_that_copies_spans_is_left_alone() -> None:
    asked = []

    def copy(texts: Sequence[str], required: Sequence[tuple[str, ...]]) -> list[str]:
        asked.append((texts, required))
        return list(texts)

    assert protect(["a {b} c", "plain"], copy, one_by_one) == ["a {b} c", "plain"]
    assert len(asked) == 1


def test_a_lost_span_is_first_asked_for() -> None:
    def obey(_: Sequence[str], required: Sequence[tuple[str, ...]]) -> list[str]:
        return [" ".join(["ja", *phrases]) for phrases in required]

    assert protect(["a {b} c %s", "plain"], obey, one_by_one) == ["ja {b} %s", "ja"]


def test_a_text_without_spans_is_translated_as_ever() -> None:
    assert protect(["you have", ""], word_by_word, one_by_one) == ["du hast", ""]
    assert protect([], word_by_word, one_by_one) == []


SPANS = [
    "https://example.org/a_b?c=d", "www.example.org", "x@example.org", "{name}", "{0}", "{{ x }}", "${y}", "%s",
    "%(n)d", "%1$s", "%%", "<b>", "</b>", "<i>", "</i>", "<br/>", '<a href="x y">', "</a>", "</p>", "<p>",
]  # fmt: skip
MIXED = st.lists(
    st.one_of(
        st.sampled_from(SPANS),
        st.sampled_from(["you", "have", " ", " ", ". ", ", ", "(", ")", "5", "%", "{", "<", "@", "://", "-", "é"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    ),
    max_size=12,
).map("".join)
MODELS: list[Callable[[Sequence[str], Sequence[tuple[str, ...]]], list[str]]] = [
    word_by_word,
    lambda texts, _: [""] * len(texts),
    lambda texts, _: [text[::-1] for text in texts],
    lambda texts, _: [text + text for text in texts],
    lambda texts, _: ["{{ <b> http:// 5% @ {name} www. <" for _ in texts],
]


@given(st.lists(MIXED, max_size=3), st.sampled_from(MODELS), st.sampled_from([one_by_one, backwards]))
@settings(max_examples=150, deadline=None)
def test_any_mix_of_spans_survives_any_model(
    texts: list[str], model: Callable[..., list[str]], align: Callable[..., list[list[Link]]]
) -> None:
    for text, result in zip(texts, protect(texts, model, align), strict=True):
        wanted = Counter(spans_of(text))
        assert {span: Counter(spans_of(result))[span] for span in wanted} == dict(wanted)
        assert all(result.count(span) >= count for span, count in wanted.items())


@given(MIXED, st.text(max_size=20))
def test_spans_behind_a_text_always_survive(source: str, target: str) -> None:
    assert survives(source, at_the_end(source, target))


TREES = st.recursive(
    st.sampled_from(["you", "have", "old", "%s", "<br/>"]),
    lambda inner: st.builds(
        lambda tag, content: f"<{tag}>{' '.join(content)}</{tag}>",
        st.sampled_from("abi"),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)


@given(TREES, st.permutations(range(8)), st.data())
@settings(max_examples=100, deadline=None)
def test_tags_stay_well_nested_whatever_the_alignment(tree: str, order: list[int], data: st.DataObject) -> None:
    target = "eins zwei drei vier fünf"
    stripped = take_out(tree, lambda _: True)
    sources, targets = words(stripped.text), words(target)
    links = [
        Link(*sources[i], *targets[order[j] % 5], weight=data.draw(st.sampled_from([0.2, 0.5, 1.0])))
        for i in range(len(sources))
        for j in range(data.draw(st.integers(0, 2)))
    ]
    result = put_back(stripped, target, links)
    open_tags: list[str] = []
    for closing, name in re.findall(r"<(/?)([abi])>", result):
        if closing:
            assert open_tags.pop() == name
        else:
            open_tags.append(name)
    assert not open_tags
    assert survives(tree, result)


def test_deeply_nested_tags_survive() -> None:
    text = "<b>" * 3000 + "you" + "</b>" * 3000
    assert protect([text], word_by_word, one_by_one)[0].count("</b>") == 3000


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "<a ",
        "<a '\"",
        "http://",
        "www.",
        "http://.",
        "a@",
        "a.a",
        "{",
        "{a",
        "${",
        "%(",
        "%1",
        "%5",
        "<b>",
        "</b>",
        "<b>x</i>",
        "{x} ",
    ],
)
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    def seconds(count: int) -> float:
        text, best = unit * count, 9.0
        for _ in range(3):
            begin = time.thread_time()
            stripped = take_out(text, lambda _: True)
            put_back(stripped, "eins zwei", [])
            best = min(best, time.thread_time() - begin)
        return best

    count = 500
    while seconds(count) < 0.004 and count < 100_000:
        count *= 2
    assert min(seconds(8 * count) / seconds(count) for _ in range(3)) < 16  # a square would give 64
