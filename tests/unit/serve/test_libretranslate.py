"""LibreTranslate's API, with its official client and with plain requests."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from libretranslatepy import LibreTranslateAPI

import sixfold

if TYPE_CHECKING:
    from tests.conftest import Served

MODEL = Path(__file__).parents[2] / "compat" / "format-1-phrases"
SOURCES = (MODEL.parent / "source-format-1-phrases.txt").read_text(encoding="utf-8").splitlines()[:20]
EXPECTED = (MODEL.parent / "expected-format-1-phrases.txt").read_text(encoding="utf-8").splitlines()[:20]
ENGLISH = {"source": "en", "target": "de"}


def translate(client: httpx.Client, **fields: object) -> dict[str, object]:
    response = client.post("/translate", json=ENGLISH | fields)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_official_client_translates_detects_and_lists(server: Served) -> None:
    client = LibreTranslateAPI(server.address)
    assert client.translate(SOURCES[0], "en", "de") == EXPECTED[0]
    assert client.translate(SOURCES[1], "auto", "de") == EXPECTED[1]
    assert client.detect(SOURCES[0]) == [{"confidence": 100.0, "language": "en"}]
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}]


def test_a_list_of_texts_gives_the_same_translations_as_the_command_line(client: httpx.Client) -> None:
    assert translate(client, q=SOURCES) == {"translatedText": EXPECTED}


@pytest.mark.parametrize("kind", ["json", "data", "files"])
def test_json_and_both_form_encodings_give_the_same(client: httpx.Client, kind: str) -> None:
    fields = ENGLISH | {"q": SOURCES[0], "format": "text"}
    given = {name: (None, value) for name, value in fields.items()} if kind == "files" else fields
    assert client.post("/translate", **{kind: given}).json() == {"translatedText": EXPECTED[0]}


def test_spacing_and_line_breaks_are_preserved(client: httpx.Client) -> None:
    text = f"\n  {SOURCES[0]}   {SOURCES[1]}\r\n\n\t{SOURCES[2]} \n"
    expected = f"\n  {EXPECTED[0]}   {EXPECTED[1]}\r\n\n\t{EXPECTED[2]} \n"
    assert translate(client, q=text)["translatedText"] == expected


def test_a_sentence_longer_than_the_model_reads_is_translated_completely(client: httpx.Client) -> None:
    clause = "the old man sees a dog"
    answer = translate(client, q=", ".join([clause] * 150))["translatedText"]
    translator = sixfold.load(MODEL, "cpu")
    assert isinstance(answer, str)
    assert len(translator.tokenizer.encode(answer)) > 0.5 * len(
        translator.tokenizer.encode(", ".join([clause] * 150))
    )
    whole = translator.search([", ".join([clause] * 150)])[0][0]
    assert whole.source_is_cut  # the model alone would truncate it


def test_a_detected_language_is_returned_with_its_confidence(client: httpx.Client) -> None:
    found = translate(client, q=["A dog.", "A cat."], source="auto")
    assert found["detectedLanguage"] == [{"language": "en", "confidence": 100.0}] * 2
    assert "detectedLanguage" not in translate(client, q="A dog.")


def test_alternatives_are_other_translations_best_first(client: httpx.Client) -> None:
    answer = translate(client, q=SOURCES[:2], alternatives=3)
    assert answer["translatedText"] == EXPECTED[:2]
    searched = sixfold.load(MODEL, "cpu").search(SOURCES[:2], sixfold.SearchOptions(n_best=4))
    assert answer["alternatives"] == [[each.text for each in found[1:]] for found in searched]
    assert translate(client, q=SOURCES[0], alternatives=1)["alternatives"] == [searched[0][1].text]


@pytest.mark.parametrize("text", ["", " ", "\n\n", " — … \n", "!"])
def test_a_text_without_words_is_returned_unchanged(client: httpx.Client, text: str) -> None:
    assert translate(client, q=text) == {"translatedText": text}


def test_addresses_and_placeholders_are_copied(client: httpx.Client) -> None:
    found = translate(client, q="See the dog at https://example.org/?a=1, {name}, or write to me@example.org.")
    for span in ("https://example.org/?a=1", "{name}", "me@example.org"):
        assert str(found["translatedText"]).count(span) == 1


def test_html_keeps_its_tags_and_escapes(client: httpx.Client) -> None:
    text = (
        '<h1>The <em>old</em> man</h1>\n<p class="a">The dog sees <a href="x?a&amp;b">a small house</a>. '
        "Tom &amp; Tim sleep.</p><script>let the = 'dog';</script>"
    )
    answer = str(translate(client, q=text, format="html")["translatedText"])
    tags = re.compile(r"<[^>]*>")
    assert tags.findall(answer) == tags.findall(text)
    assert "<script>let the = 'dog';</script>" in answer
    assert "dog" not in answer.replace("let the = 'dog'", "")


def test_a_picture_inside_the_html_comes_back(client: httpx.Client) -> None:
    picture = f'<img alt="a dog"\n src="data:image/png;base64,{"iVBORw0KGgo" * 300}">'
    answer = str(translate(client, q=f"<p>The dog {picture} sleeps.</p>", format="html")["translatedText"])
    assert picture in answer
    assert "iVBOR" not in answer.replace(picture, "")


def test_escaped_text_never_becomes_a_tag(client: httpx.Client) -> None:
    text = html.escape("The <img src=x onerror=alert(1)> dog <script>alert(1)</script>")
    assert "<" not in str(translate(client, q=text, format="html")["translatedText"])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=40), format=st.sampled_from(["text", "html"]))
def test_any_text_is_translated_without_an_error(client: httpx.Client, text: str, format: str) -> None:
    response = client.post("/translate", json=ENGLISH | {"q": text, "format": format})
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "q: Field required"),
        ({"q": "a", "target": "fr"}, "served: en to de"),
        ({"q": "a", "source": "fr"}, "served: en to de"),
        ({"q": "a", "format": "pdf"}, "format"),
        ({"q": "a", "beam": 3}, "beam"),
        ({"q": {"a": 1}}, "q"),
        ({"q": "\ud800"}, "surrogate"),
    ],
)
def test_an_invalid_request_is_refused_with_the_reason(
    client: httpx.Client, fields: dict[str, object], message: str
) -> None:
    content = json.dumps(ENGLISH | fields)
    response = client.post("/translate", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert message in response.json()["error"]


def test_the_frontend_settings_are_served(client: httpx.Client) -> None:
    found = client.get("/frontend/settings").json()
    assert found["charLimit"] == 50_000
    assert found["language"]["target"] == {"code": "de", "name": "German"}
    assert client.get("/health").json() == {"status": "ok"}
