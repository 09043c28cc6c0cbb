"""Embedding: unit vectors that depend on their text alone, and an index that computes only what is new."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import sixfold
from sixfold.errors import ConfigError, DataError, ModelFolderError
from sixfold.models.folder import load_members
from sixfold.tasks.embed import Embedder
from sixfold.tasks.match import Index, build_index, load_index, maker, save_index
from sixfold.tasks.registry import task_named
from sixfold.text import Tokenizer

pytest.importorskip("tokenizers")

from tests.unit.tasks.embedders import TEXTS, save_embedder, word_pieces


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_embedder(tmp_path_factory.mktemp("embed") / "m", word_pieces())


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    found: object = sixfold.load(folder)
    assert isinstance(found, Embedder)
    return found


def test_the_vectors_are_those_of_the_model_on_padded_batches(embedder: Embedder, folder: Path) -> None:
    [model] = load_members(folder, embedder.info)
    rows = embedder.read(TEXTS)
    longest = max(len(row.tokens) for row in rows)
    tokens = torch.tensor([row.tokens + [0] * (longest - len(row.tokens)) for row in rows])
    with torch.inference_mode():
        np.testing.assert_allclose(embedder.embed(TEXTS), model(tokens).numpy(), rtol=0, atol=1e-5)


def test_a_text_has_the_same_vector_alone_and_in_any_company(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(embedder.embed(text), vector)
    assert np.array_equal(embedder.embed(TEXTS[::-1])[::-1], together)


def test_progress_and_parts_change_nothing(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    together, seen = embedder.embed(TEXTS), list[int]()
    monkeypatch.setattr("sixfold.tasks.embed.TEXTS_AT_ONCE", 7)
    assert np.array_equal(embedder.embed(TEXTS, seen.append), together)
    assert seen == [7, 14, 21, 28, 35, 40]


def test_vectors_have_length_one_even_of_an_empty_text(embedder: Embedder) -> None:
    vectors = embedder.embed(["", "x", "word " * 100])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert embedder.embed([]).shape == (0, 64)


def test_what_is_cut_or_unknown_is_known(embedder: Embedder) -> None:
    whole, long, strange = embedder.read(["The dog.", "the " * 100, "the ☃ dog ☃"])
    assert [row.is_cut for row in (whole, long, strange)] == [False, True, False]
    assert len(long.tokens) == 24
    assert [embedder.num_unknown(row) for row in (whole, long, strange)] == [0, 0, 2]


def test_our_own_tokenizers_embed_too(tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn(TEXTS, 400)
    found: object = sixfold.load(save_embedder(tmp_path / "m", tokenizer), precision="int8")
    assert isinstance(found, Embedder)
    assert np.array_equal(found.embed(TEXTS)[3], found.embed(TEXTS[3]))


def test_a_folder_without_a_head_for_vectors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="no model that embeds"):
        sixfold.load(save_embedder(tmp_path / "m", word_pieces(), head="vectors"))


def test_training_says_that_it_is_not_possible_yet() -> None:
    with pytest.raises(ConfigError, match="cannot be trained yet"):
        task_named("embed")


# The index


def test_the_nearest_line_is_the_text_itself_and_the_rest_follow_by_cosine(embedder: Embedder) -> None:
    index, num_new = build_index(embedder, TEXTS)
    assert num_new == len(set(TEXTS))
    matches = index.nearest(embedder.embed(TEXTS[5]), 7)
    assert matches[0].line == 6
    assert matches[0].score == pytest.approx(1, abs=1e-6)
    expected = np.argsort(-(index.vectors @ index.vectors[5]), kind="stable")[:7] + 1
    assert sorted(match.line for match in matches) == sorted(expected.tolist())
    assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)


def test_an_index_embeds_only_lines_that_are_new(embedder: Embedder, tmp_path: Path) -> None:
    index, _ = build_index(embedder, TEXTS[:30])
    save_index(tmp_path / "i", index, "one")
    known = load_index(tmp_path / "i", "one", embedder.width)
    changed = [TEXTS[35], *TEXTS[10:20], TEXTS[36], TEXTS[35]]
    again, num_new = build_index(embedder, changed, known)
    assert num_new == 2
    assert np.array_equal(again.vectors, embedder.embed(changed))


def test_an_index_of_another_model_is_made_anew(embedder: Embedder, tmp_path: Path) -> None:
    index, _ = build_index(embedder, TEXTS[:3])
    save_index(tmp_path / "i", index, maker(embedder, "float32"))
    assert load_index(tmp_path / "i", maker(embedder, "float32"), embedder.width) is not None
    assert load_index(tmp_path / "i", maker(embedder, "int8"), embedder.width) is None
    assert load_index(tmp_path / "there is none", "one", embedder.width) is None


@pytest.mark.parametrize("damage", ["text", "other tensors", "cut", "width"])
def test_what_is_no_index_is_refused(embedder: Embedder, tmp_path: Path, damage: str) -> None:
    from safetensors.numpy import save_file

    path, width = tmp_path / "i", embedder.width
    index, _ = build_index(embedder, TEXTS[:3])
    save_index(path, index, "one")
    if damage == "text":
        path.write_text("a file of somebody\n")
    elif damage == "other tensors":
        save_file({"vectors": np.zeros((2, 2), dtype=np.float32)}, path)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    else:
        save_index(path, Index(index.vectors[:, :7].copy(), index.digests), "one")
    with pytest.raises(DataError, match=str(path)):
        load_index(path, "one", width)
