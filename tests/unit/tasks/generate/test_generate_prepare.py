"""From files to rows: every byte is trained on or held out, none both, and none is counted twice."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sixfold.data.shards import Corpus
from sixfold.data.texts import open_texts
from sixfold.errors import DataError
from sixfold.tasks.generate import Generate
from sixfold.tasks.generate.held_out import ByDocument, ByStretch, choose_held_out
from sixfold.tasks.generate.learner import NO_TARGET
from sixfold.tasks.generate.processor import TextProcessor
from sixfold.tasks.generate.survey import survey
from sixfold.training.recipe import make_recipe
from sixfold.training.task import Given, Prepared

WORDS = ["one", "zwei", "три", "四", "größe", "\u2028five", "a\tb", "6 7", "“eight”", "nine."]


def sayings(count: int, seed: int = 3) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(count)]


def text_file(folder: Path, kind: str) -> Path:
    contents = {
        "one document": "\n".join(sayings(3000)),
        "many documents": "".join(json.dumps({"text": each}) + "\n" for each in sayings(2000)),
        "conversations": "".join(
            json.dumps({"prompt": f"{n}: {each}", "response": each}) + "\n" for n, each in enumerate(sayings(600))
        ),
    }
    (folder / "text").write_text(contents[kind], encoding="utf-8")
    return folder / "text"


def prepared(
    folder: Path, *files: Path, valid: Path | None = None, **data: object
) -> tuple[TextProcessor, Prepared]:
    """Prepare files as a training would."""
    task, overrides = Generate(), {"data": {"context": 64, "vocabulary": 400, "valid_bytes": 4000, **data}}
    examples = task.read(files, overrides)
    held_out = None if valid is None else task.read([valid], overrides)
    found = task.survey(examples, 1, lambda _: None)
    recipe = make_recipe(task.recipe, {**overrides, "model": {"preset": "gpt-tiny", "max_positions": 65536}})
    processor = task.fit(found, recipe, None)
    given = Given(examples, held_out, found, recipe, processor)
    return processor, task.prepare(folder / "data", given, lambda _: None)


def text_of(processor: TextProcessor, corpus: Corpus) -> list[str]:
    """Return the documents that the rows of a split spell, each token once."""
    records = corpus.read(np.arange(len(corpus), dtype=np.uint32)).values
    special, tokens = processor.tokenizer.special, list[int]()
    for record in records:
        tokens += record["tokens"][bool(tokens) :].tolist()
    documents = list[list[int]]([[]])
    for token in tokens:
        if token in (special.bos, special.eos):
            documents.append([])
        else:
            documents[-1].append(token)
    return [processor.tokenizer.decode(each) for each in documents if each]


@pytest.mark.parametrize("subwords", ["bpe", "unigram", "characters", "bytes"])
def test_every_document_is_trained_on_or_held_out(tmp_path: Path, subwords: str) -> None:
    file = text_file(tmp_path, "many documents")
    processor, corpora = prepared(tmp_path, file, subwords=subwords)
    train, valid = text_of(processor, corpora.train()), text_of(processor, corpora.valid())
    whole = {*sayings(2000)}
    assert {*valid} <= whole
    assert not {*train} & {*valid}
    assert sum(map(len, valid)) <= 6000
    overlap = {*train} - whole  # of the last row, which is filled up with the end of the one before it
    assert len(overlap) <= 3
    assert {*train, *valid} >= whole


def test_of_one_document_stretches_are_held_out_at_even_distances(tmp_path: Path) -> None:
    file = text_file(tmp_path, "one document")
    processor, corpora = prepared(tmp_path, file, context=65536)
    whole = file.read_text(encoding="utf-8")
    [row] = corpora.valid().read(np.arange(1, dtype=np.uint32)).values
    starts = [*row["starts"].tolist(), len(row["tokens"])]
    held_out = [processor.tokenizer.decode(row["tokens"][begin:end].tolist()) for begin, end in pairwise(starts)]
    assert len(held_out) == 2
    assert all(each in whole for each in held_out)
    rest = "".join(text_of(processor, corpora.train()))
    assert all(each.strip() not in rest for each in held_out)
    assert len(rest) + sum(map(len, held_out)) == pytest.approx(len(whole), abs=8)


@pytest.mark.parametrize("kind", ["one document", "many documents", "conversations"])
@pytest.mark.parametrize("subwords", ["bpe", "bytes"])
def test_bits_per_byte_divide_by_the_bytes_of_what_is_predicted(tmp_path: Path, kind: str, subwords: str) -> None:
    file = text_file(tmp_path, kind)
    processor, corpora = prepared(tmp_path, file, valid=file, subwords=subwords, context=512)
    corpus, learner = corpora.valid(), Generate().learner(make_recipe(Generate.recipe, {}), processor)
    counted = sum(
        int(record["sizes"][1:][learner.targets(record) != NO_TARGET].sum())
        for record in corpus.read(np.arange(len(corpus), dtype=np.uint32)).values
    )
    texts = {
        "one document": [file.read_text(encoding="utf-8")],
        "many documents": sayings(2000),
        "conversations": sayings(600),  # the responses
    }
    assert counted == sum(len(text.encode()) for text in texts[kind])


def test_equal_documents_and_equal_prompts_fall_on_one_side(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(json.dumps({"text": each}) + "\n" for each in sayings(500) * 4))
    processor, corpora = prepared(tmp_path, tmp_path / "text")
    assert not {*text_of(processor, corpora.train())} & {*text_of(processor, corpora.valid())}
    same = "".join(json.dumps({"prompt": "always this", "response": each}) + "\n" for each in sayings(50))
    (tmp_path / "text").write_text(same)
    with pytest.raises(DataError, match="Nothing is left to train on"):
        prepared(tmp_path, tmp_path / "text")


def test_how_text_is_held_out_depends_on_how_many_documents_there_are(tmp_path: Path) -> None:
    kinds = {"one document": ByStretch, "many documents": ByDocument}
    for kind, expected in kinds.items():
        found = survey(open_texts([text_file(tmp_path, kind)]), lambda _: None)
        assert isinstance(choose_held_out(found, 4000), expected)


def test_conversations_that_are_longer_than_a_row_are_left_out_and_counted(tmp_path: Path) -> None:
    file = text_file(tmp_path, "conversations")
    long = json.dumps({"prompt": "much", "response": "talk " * 300}) + "\n"
    file.write_text(file.read_text() + long + long)
    _, corpora = prepared(tmp_path, file, context=128)
    assert corpora.warnings == ("left out 2 conversations: longer than 128 tokens (the first on line 601)",)


CHILD = """
import resource, sys
from pathlib import Path
from sixfold.tasks.generate import Generate
from sixfold.training.recipe import make_recipe
from sixfold.training.task import Given

sys.modules["sixfold.tasks.generate.survey"].SAMPLE_STRETCHES = 200  # less than either file has

def prepare(name):
    task, overrides = Generate(), {"data": {"context": 64, "vocabulary": 300}}
    examples = task.read([Path(name)], overrides)
    survey = task.survey(examples, 1, lambda _: None)
    recipe = make_recipe(task.recipe, overrides)
    given = Given(examples, None, survey, recipe, task.fit(survey, recipe, None))
    return survey.num_characters, len(task.prepare(Path(name + ".data"), given, lambda _: None).train())

prepare("short.txt.gz")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(*prepare("long.txt.gz"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_line_without_end_is_trained_on_in_bounded_memory(tmp_path: Path) -> None:
    for name, blocks in (("short", 4), ("long", 16)):
        with gzip.open(tmp_path / f"{name}.txt.gz", "wb", compresslevel=1) as file:
            for _ in range(blocks):
                file.write(b"one long line " * 37_500)
    done = subprocess.run([sys.executable, "-c", CHILD], cwd=tmp_path, capture_output=True, text=True)
    characters, rows, grown = map(int, done.stdout.split())
    assert characters == 16 * 525_000
    assert rows > 16 * 525_000 / 64 / 14
    assert grown < 30_000  # kB: six more MB in one line do not matter


def test_text_and_conversations_are_not_mixed(tmp_path: Path) -> None:
    text, talk = tmp_path / "a.txt", tmp_path / "b.jsonl"
    text.write_text("\n".join(sayings(100)))
    talk.write_text('{"prompt": "one", "response": "two"}\n' * 30)
    with pytest.raises(DataError, match="Some of the files contain conversations and others plain text"):
        Generate().read([tmp_path], {})
    with pytest.raises(DataError, match="must both be conversations, or both plain text"):
        prepared(tmp_path, text, valid=talk)


@pytest.mark.parametrize(("count", "message"), [(5, "There are only"), (0, "There are only")])
def test_too_little_text_is_refused(tmp_path: Path, count: int, message: str) -> None:
    (tmp_path / "text").write_text("\n".join(sayings(count)) + "\n")
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, tmp_path / "text")
    (tmp_path / "talk").write_text('{"prompt": "one", "response": "two"}\n' * 9)
    with pytest.raises(DataError, match="There are only 9 conversations"):
        prepared(tmp_path, tmp_path / "talk")
