"""What the loop sees of text: what is learned where, what sees what, and that a step in parts is the step."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from sixfold.data.shards import Corpus
from sixfold.tasks.generate import Generate
from sixfold.tasks.generate.learner import NO_TARGET, GenerateLearner
from sixfold.training.recipe import make_recipe
from sixfold.training.task import Batch, Given, Prepared

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
OVERRIDES = {
    "data": {"context": 24, "vocabulary": 300},
    "model": {
        "preset": "gpt-tiny",
        "layers": 2,
        "d_model": 32,
        "d_ff": 64,
        "heads": 2,
        "dropout": 0,
        "max_positions": 24,
    },
}


def prepared(folder: Path, content: str, **data: object) -> tuple[GenerateLearner, Prepared]:
    """Return a learner and its corpus."""
    (folder / "text").write_text(content, encoding="utf-8")
    task = Generate()
    overrides = {**OVERRIDES, "data": {**OVERRIDES["data"], **data}}
    examples = task.read([folder / "text"], overrides)
    survey = task.survey(examples, 1, lambda _: None)
    recipe = make_recipe(task.recipe, overrides)
    processor = task.fit(survey, recipe, None)
    corpus = task.prepare(folder / "data", Given(examples, None, survey, recipe, processor), lambda _: None)
    return task.learner(recipe, processor), corpus


def sayings(count: int) -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(count)]


def batch_of(learner: GenerateLearner, corpus: Corpus, rows: int = 6) -> Batch:
    return learner.collate(corpus.read(np.arange(min(rows, len(corpus)), dtype=np.uint32)), 1)


CONTENTS = {
    "text": "\n".join(sayings(300)),
    "documents": "".join(json.dumps({"text": each}) + "\n" for each in sayings(300)),
    "conversations": "".join(
        json.dumps({"prompt": f"after {each}", "response": each[::-1]}) + "\n" for each in sayings(300)
    ),
}


@pytest.mark.parametrize("crosses", [True, False])
@pytest.mark.parametrize("kind", CONTENTS)
def test_the_losses_of_parts_add_up_to_that_of_the_batch(tmp_path: Path, kind: str, crosses: bool) -> None:
    learner, corpus = prepared(tmp_path, CONTENTS[kind], crosses_documents=crosses)
    torch.manual_seed(0)
    model, batch = learner.new_model(), batch_of(learner, corpus.train())
    with torch.no_grad():
        whole = learner.loss(model, batch)
        parts = [learner.loss(model, batch.take(slice(row, row + 2))) for row in range(0, 6, 2)]
    torch.testing.assert_close(torch.stack(parts).sum(), whole)


def test_what_begins_a_document_is_no_target_and_what_ends_it_is_one(tmp_path: Path) -> None:
    learner, corpus = prepared(tmp_path, CONTENTS["documents"])
    special = learner.processor.tokenizer.special
    batch = batch_of(learner, corpus.train())
    tokens, targets = batch.tensors["tokens"][:, 1:], batch.tensors["targets"][:, :-1]
    begins = tokens == special.bos
    assert begins.any()
    assert (targets[begins] == NO_TARGET).all()
    assert (targets[tokens == special.eos] == special.eos).all()
    assert torch.equal(targets[~begins], tokens[~begins].long())
    assert batch.num_targets == int((batch.tensors["targets"] != NO_TARGET).sum())


def test_only_what_the_assistant_says_is_learned(tmp_path: Path) -> None:
    learner, corpus = prepared(tmp_path, CONTENTS["conversations"])
    records = corpus.train().read(np.arange(20, dtype=np.uint32))
    tokenizer, learned = learner.processor.tokenizer, list[str]()
    for record in records.values:
        targets = learner.targets(record)
        learned += tokenizer.decode(targets[targets != NO_TARGET].tolist()).split()
    responses = {
        word for line in CONTENTS["conversations"].splitlines() for word in json.loads(line)["response"].split()
    }
    assert learned
    assert {word for text in learned for word in text.split()} <= responses | {
        first + second for first in responses for second in responses
    }


@pytest.mark.parametrize("crosses", [True, False])
def test_a_token_sees_what_stands_before_it_in_its_row_or_its_document_alone(
    tmp_path: Path, crosses: bool
) -> None:
    learner, corpus = prepared(tmp_path, CONTENTS["documents"], crosses_documents=crosses)
    torch.manual_seed(0)
    model = learner.new_model().eval()
    batch = batch_of(learner, corpus.train(), rows=1)
    tokens = batch.tensors["tokens"]
    starts = (tokens[0] == learner.processor.tokenizer.special.bos).nonzero()[:, 0].tolist()
    start = next(place for place in starts if place > 2)

    def embedded(place: int) -> torch.Tensor:
        """Return how the loss of the target at a place changes with the vector of each token."""
        only = torch.full_like(batch.tensors["targets"], NO_TARGET)
        only[0, place] = 5
        vectors = list[torch.Tensor]()
        hook = model.stem.embedding.register_forward_hook(
            lambda *args: vectors.append(args[2]) or args[2].retain_grad()
        )
        learner.loss(model, Batch({**batch.tensors, "targets": only}, 1, batch.examples)).backward()
        hook.remove()
        assert vectors[0].grad is not None
        return vectors[0].grad[0].abs().sum(-1)

    seen = embedded(start + 1) > 0
    assert not seen[start + 2 :].any()
    assert seen[start : start + 2].all()
    assert bool(seen[:start].any()) == crosses
