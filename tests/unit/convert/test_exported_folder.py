"""An exported folder is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.convert.exported_folder import new_folder, plain_tokenizer, refuse_unusual
from sixfold.errors import ConfigError, WorkError
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.text import Tokenizer


def test_a_finished_folder_takes_its_place_with_ordinary_rights(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with new_folder(out) as temporary:
        (temporary / "file").write_text("content")
        (temporary / "file").chmod(0o600)
        assert not out.exists()
    assert (out / "file").read_text() == "content"
    assert (out / "file").stat().st_mode & 0o444 == 0o444
    assert list(tmp_path.iterdir()) == [tmp_path / "deep"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, WorkError])
def test_a_failure_leaves_nothing_behind(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "deep" / "out") as temporary:
            (temporary / "file").write_text("content")
            raise error("no")

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with new_folder(out) as temporary:
        (temporary / "file").write_text("content")
    assert [path.name for path in out.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["file", "folder", "link", "broken link"])
def test_what_is_there_is_never_touched(tmp_path: Path, kind: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    if kind == "file":
        out.write_text("mine")
    elif kind == "folder":
        out.mkdir()
        (out / "mine").write_text("mine")
    else:
        if kind == "link":
            other.mkdir()
        out.symlink_to(other)
    with pytest.raises(ConfigError, match="already exists"), new_folder(out):
        pass
    assert out.is_symlink() or out.exists()


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_characters="\n\0▁", exclude_categories=["Cs"]), max_size=20))
def test_the_plain_tokenizer_spells_as_ours_does(tokenizer: Tokenizer, text: str) -> None:
    plain = sentencepiece.SentencePieceProcessor(model_proto=plain_tokenizer(tokenizer.model))
    ids = tokenizer.encode(text)
    if text:
        assert plain.encode(text) == ids
    assert plain.decode(ids) == text


@pytest.mark.parametrize("choices", [{"norm_kind": "rms"}, {"activation": "gelu"}, {"gated": True}], ids=str)
def test_layers_that_no_export_describes_yet_are_refused_by_the_name_of_the_setting(
    choices: dict[str, object],
) -> None:
    [name] = choices
    with pytest.raises(ConfigError, match=f"exported to Somewhere, because of model.{name}"):
        refuse_unusual(EncoderDecoderConfig.model_validate({"vocabulary": 100, **choices}), "Somewhere")
