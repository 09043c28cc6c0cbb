"""Scripts without spaces: one definition, and all who ask for one agree."""

from __future__ import annotations

import sys
import unicodedata
from itertools import pairwise

import pytest

from sixfold.data.checks.characters import script_of
from sixfold.evaluate.metrics import bleu_tokenizer
from sixfold.text.scripts import LANGUAGES_WITHOUT_SPACES, RANGES, SCRIPTS, script_without_spaces
from sixfold.text.words import occurs, words

TEXTS = {
    "th": "ที่นี่มีแมว๒๑ตัว",
    "lo": "ຂ້ອຍມັກແມວ",
    "bo": "བོད་ཀྱི་སྐད་ཡིག",
    "dz": "རྫོང་ཁ",
    "my": "ကြောင်ကိုချစ်တယ်",
    "km": "ខ្ញុំស្រឡាញ់ឆ្មា",
    "zh": "我喜歡二〇二四年的貓𠮷",
    "yue": "我鍾意貓",
    "ja": "人々はﾈｺやコーヒーが好きだ",
}
WITH_SPACES = {
    "ko": "나는 고양이를 좋아한다",
    "vi": "tôi yêu con mèo",
    "hi": "मुझे बिल्ली पसंद है",
    "am": "ድመት እወዳለሁ",
    "de": "Müßiggänger",
}
CHARACTERS = [character for character in map(chr, range(sys.maxunicode + 1)) if not character.isspace()]
LETTERS = [character for character in CHARACTERS if unicodedata.category(character)[0] in "LMN"]
SINGULAR = [  # without the thousands that differ in nothing but their number
    letter for letter in LETTERS if not unicodedata.name(letter, "").startswith(("CJK UNIFIED", "HANGUL SYL"))
]


@pytest.mark.parametrize("language", TEXTS)
def test_every_letter_is_of_the_script_of_its_language(language: str) -> None:
    scripts = {script_without_spaces(letter) for letter in TEXTS[language] if letter.isalnum()}
    assert [language in script.languages for script in scripts if script] == [True]
    assert language in LANGUAGES_WITHOUT_SPACES


@pytest.mark.parametrize("language", WITH_SPACES)
def test_no_letter_of_a_language_with_spaces_is_of_such_a_script(language: str) -> None:
    assert not any(map(script_without_spaces, WITH_SPACES[language]))
    assert language not in LANGUAGES_WITHOUT_SPACES


@pytest.mark.parametrize("language", TEXTS)
def test_words_phrases_the_check_and_the_metrics_agree_about_a_language_without_spaces(language: str) -> None:
    text = TEXTS[language]
    found = [text[start:end] for start, end in words(text)]
    assert all(sum(map(str.isalnum, word)) <= 1 for word in found)  # a letter with its marks, or a sign
    assert all(occurs(word, text) for word in found)
    assert {script_of(letter) for letter in text if letter.isalpha()} == {
        script.name for script in SCRIPTS if language in script.languages
    }
    assert bleu_tokenizer(language) != "13a"


@pytest.mark.parametrize("language", WITH_SPACES)
def test_words_phrases_the_check_and_the_metrics_agree_about_a_language_with_spaces(language: str) -> None:
    text = WITH_SPACES[language]
    found = [text[start:end] for start, end in words(text)]
    assert found == text.split()
    assert not any(occurs(word[0], word) for word in found if len(word) > 1)
    assert not {script_of(letter) for letter in text if letter.isalpha()} & {script.name for script in SCRIPTS}
    assert bleu_tokenizer(language) == "13a"


@pytest.mark.parametrize("neighbour", ["a", "猫", "ด", "ี", "\u0301", "."])
def test_a_word_ends_where_a_phrase_may_end_for_every_letter(neighbour: str) -> None:
    for letter in [*SINGULAR, "猫", "𠮷", "한"]:
        for text in (neighbour + letter, letter + neighbour):
            assert occurs(text[0], text) == (len(words(text)) == 2), ascii(text)


def test_the_check_names_the_same_letters_as_the_table() -> None:
    names = {script.name for script in SCRIPTS}
    for letter in filter(str.isalpha, CHARACTERS):
        script = script_without_spaces(letter)
        assert (script_of(letter) in names) == (script is not None), ascii(letter)
        assert script is None or script_of(letter) == script.name


def test_every_letter_that_unicode_names_after_the_scripts_is_in_the_table() -> None:
    unicode_names = (
        "CJK ",
        "HIRAGANA",
        "KATAKANA",
        "HALFWIDTH KATAKANA",
        "THAI",
        "LAO",
        "TIBETAN",
        "MYANMAR",
        "KHMER",
    )
    named = [letter for letter in LETTERS if unicodedata.name(letter, "").startswith(unicode_names)]
    assert len(named) > 90_000
    assert all(map(script_without_spaces, named))


def test_ranges_do_not_overlap() -> None:
    assert all(before[1] < after[0] for before, after in pairwise(RANGES))
