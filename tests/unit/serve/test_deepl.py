"""DeepL's API, with its official client and with plain requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import deepl
import httpx
import pytest

if TYPE_CHECKING:
    from tests.conftest import Served

COMPAT = Path(__file__).parents[2] / "compat"
SOURCES = (COMPAT / "source-format-1-phrases.txt").read_text(encoding="utf-8").splitlines()[:20]
EXPECTED = (COMPAT / "expected-format-1-phrases.txt").read_text(encoding="utf-8").splitlines()[:20]


@pytest.fixture(scope="module")
def deepl_client(server: Served) -> deepl.DeepLClient:
    return deepl.DeepLClient("any key", server_url=server.address)


def test_the_official_client_translates(deepl_client: deepl.DeepLClient) -> None:
    found = deepl_client.translate_text(SOURCES, target_lang="DE")
    assert [each.text for each in found] == EXPECTED
    assert {each.detected_source_lang for each in found} == {"EN"}
    assert [each.billed_characters for each in found] == [len(text) for text in SOURCES]


def test_the_official_client_gives_one_result_for_one_text(deepl_client: deepl.DeepLClient) -> None:
    found = deepl_client.translate_text(SOURCES[0], source_lang="EN", target_lang="DE", formality="prefer_more")
    assert found.text == EXPECTED[0]


def test_the_official_client_keeps_tags(deepl_client: deepl.DeepLClient) -> None:
    found = deepl_client.translate_text("<p>The <b>dog</b> sleeps.</p>", target_lang="DE", tag_handling="html")
    assert found.text.startswith("<p>")
    assert found.text.count("<b>") == found.text.count("</b>") == 1


def test_the_official_client_lists_languages_and_usage(deepl_client: deepl.DeepLClient) -> None:
    assert [(each.code, each.name) for each in deepl_client.get_source_languages()] == [("EN", "English")]
    assert [(each.code, each.name) for each in deepl_client.get_target_languages()] == [("DE", "German")]
    before = deepl_client.get_usage().character.count
    deepl_client.translate_text("A dog.", target_lang="DE")
    assert deepl_client.get_usage().character.count == before + len("A dog.")
    assert not deepl_client.get_usage().any_limit_reached


def test_the_official_client_reports_the_error_message(deepl_client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match="served: en to de"):
        deepl_client.translate_text("A dog.", source_lang="EN", target_lang="FR")


def test_form_requests_of_older_clients_are_accepted(client: httpx.Client) -> None:
    found = client.post("/v2/translate", data={"text": SOURCES[:2], "target_lang": "DE", "source_lang": "EN"})
    assert [each["text"] for each in found.json()["translations"]] == EXPECTED[:2]


@pytest.mark.parametrize(
    "option", [{"formality": "more"}, {"glossary_id": "x"}, {"split_sentences": "0"}, {"context": "x"}]
)
def test_unsupported_options_are_refused(client: httpx.Client, option: dict[str, str]) -> None:
    found = client.post("/v2/translate", json={"text": ["A dog."], "target_lang": "DE"} | option)
    assert found.status_code == 400
    assert next(iter(option)) in found.json()["message"]
