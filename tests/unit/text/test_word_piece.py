"""WordPiece is the package's; it says that it loses text, and where its tokens stand in the raw text."""

from __future__ import annotations

import json
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.data.corpora.phrasebook import sentences
from sixfold.errors import ModelFolderError
from sixfold.text.published_tokenizer import PublishedTokenizer
from sixfold.text.special import SpecialIds

tokenizers = pytest.importorskip("tokenizers")

from tests.unit.text.published_words import word_piece_tokenizer  # noqa: E402

IDS = SpecialIds(pad=0, bos=2, eos=3, unk=1, mask=4)


@pytest.fixture(scope="module")
def content() -> bytes:
    return word_piece_tokenizer()


@pytest.fixture(scope="module")
def tokenizer(content: bytes) -> PublishedTokenizer:
    return PublishedTokenizer(content, IDS)


def test_the_tokens_are_those_of_the_package(content: bytes, tokenizer: PublishedTokenizer) -> None:
    theirs = tokenizers.Tokenizer.from_str(content.decode())
    texts = [*(english for english, _ in islice(sentences(), 50)), "  THE old\tmän's\n 日本 dog ", "", "🙂"]
    assert tokenizer.encode_batch(texts) == [theirs.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_tokens_are_those_of_transformers_from_the_vocabulary_alone(lowercase: bool, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    raw = word_piece_tokenizer(lowercase)
    vocabulary = json.loads(raw)["model"]["vocab"]
    (tmp_path / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\n")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path, do_lower_case=lowercase)
    ours = PublishedTokenizer(raw, IDS)
    for text in ("The Old DOG is sleeping.", "naïve Äpfel, 12345!", " x\n\ny "):
        assert ours.encode(text) == theirs(text, add_special_tokens=False).input_ids


def test_it_says_that_it_loses_text(tokenizer: PublishedTokenizer) -> None:
    assert not tokenizer.is_lossless
    assert tokenizer.decode(tokenizer.encode("The  old DOG")) == "the old dog"
    assert tokenizer.encode("☃") == [IDS.unk]


def test_what_people_write_is_never_a_special_token(tokenizer: PublishedTokenizer) -> None:
    ids = tokenizer.encode("the [SEP] old [MASK] dog [PAD][CLS]")
    assert not set(ids) & {IDS.pad, IDS.bos, IDS.eos, IDS.mask}


def test_spans_are_those_of_the_raw_text(tokenizer: PublishedTokenizer) -> None:
    text = "  The\u0301  OLD\n\nmän, 日本 sleeping ☃ dog"
    [(ids, spans)] = tokenizer.encode_with_spans([text])
    assert ids == tokenizer.encode(text)
    assert all(start < end for start, end in spans)
    assert all(first <= second for (_, first), (second, _) in pairwise(spans))
    seen = [text[start:end] for start, end in spans]
    assert {"OLD", ",", "日", "本", "☃"} <= set(seen)
    assert "".join(seen).replace("\u0301", "") == "TheOLDmän,日本sleeping☃dog"


@given(st.text())
def test_no_text_breaks_it_and_spans_stay_inside(tokenizer: PublishedTokenizer, text: str) -> None:
    [(ids, spans)] = tokenizer.encode_with_spans([text])
    assert len(ids) == len(spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans)


@pytest.mark.parametrize(
    "change",
    [
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"normalizer": {"type": "NFC"}},
        {"normalizer": None},
    ],
)
def test_other_words_than_berts_are_refused(content: bytes, change: dict[str, Any]) -> None:
    changed = json.dumps(json.loads(content) | change).encode()
    with pytest.raises(ModelFolderError, match="other words than BERT's"):
        PublishedTokenizer(changed, IDS)
