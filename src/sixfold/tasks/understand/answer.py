"""Answer: questions with their answers in a text in, an encoder that finds answers out (BERT, section 4.2).

Shapes: B rows, T positions.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from sixfold.data.checks.labelled import MOVED, Labelled
from sixfold.data.content import kinds_of
from sixfold.data.hash_sets import hash_texts
from sixfold.data.questions import Question, Questions, open_questions
from sixfold.data.shards import Columns, Record, Records, Values, token_type
from sixfold.evaluate.answers import exact_match, word_f1
from sixfold.models.folder import Labels
from sixfold.settings import Overrides
from sixfold.tasks.understand.learner import EncoderLearner
from sixfold.tasks.understand.processor import EncoderProcessor
from sixfold.tasks.understand.recipe import Decoding, UnderstandRecipe
from sixfold.tasks.understand.survey import Survey
from sixfold.tasks.understand.task import UnderstandTask
from sixfold.tasks.understand.windows import Window, best_candidate, bounds_of, windows_of
from sixfold.text.located import trimmed
from sixfold.training.base import Base
from sixfold.training.recipe import Plan
from sixfold.training.task import Batch, Inputs, Opening, Sample, Scores

if TYPE_CHECKING:
    from sixfold.tasks.understand.answerer import Answerer


class AnswerDecoding(Decoding):
    """How an answer is chosen."""

    no_answer: bool = Field(False, description="whether the text may be found not to answer the question")


class AnswerRecipe(UnderstandRecipe):
    """All the choices of a run."""

    decode: AnswerDecoding = AnswerDecoding()


class Answer(UnderstandTask[Question, AnswerRecipe]):
    """The task of finding answers in texts."""

    name = "answer"
    examples = "questions"
    recipe = AnswerRecipe

    def detect(self, inputs: Inputs) -> bool:
        """SQuAD's JSON, or JSON Lines with questions and contexts."""
        return kinds_of(inputs) == {"questions"}

    def read(self, inputs: Inputs, overrides: Overrides) -> Questions:
        """Open questions."""
        del overrides
        return open_questions(inputs)

    def texts_of(self, example: Question) -> Sequence[str]:
        """Return the question and its text."""
        return example.question, example.context

    def labels_of(self, example: Question) -> Sequence[str]:
        """Return nothing."""
        del example
        return ()

    def together_of(self, example: Question) -> str:
        """Return the text: all its questions stay on one side."""
        return example.context

    def checked(self, example: Question) -> Labelled:
        """Return what the check looks at."""
        said = "\0".join(sorted({answer.text for answer in example.answers}))
        texts = (example.question, example.context)
        return Labelled(texts, (), said, (MOVED,) if example.num_moved else ())

    def labels(self, survey: Survey[Question], recipe: AnswerRecipe) -> Labels | None:
        """Return none: the logits stand for places."""
        del survey, recipe
        return None

    def planned(
        self, survey: Survey[Question], recipe: AnswerRecipe, overrides: Overrides, base: Base | None
    ) -> Plan:
        """Return a recipe with its reasons; where all questions have answers, none is left without one."""
        has_unanswered = any(not example.answers for example in survey.sample)
        decode: Overrides = {"decode": {"no_answer": has_unanswered, **overrides.get("decode", {})}}
        chosen = recipe.model_copy(update={"decode": AnswerDecoding.model_validate(decode["decode"])})
        return super().planned(survey, chosen, overrides, base)

    def columns(self, processor: EncoderProcessor) -> Columns:
        """Return what is learned of a window, and what its answer is compared with."""
        tokens = token_type(processor.tokenizer.vocabulary)
        return {"tokens": tokens, "types": "|u1", "bounds": "<i4", "spans": "<i4", "asked": "<u8", "json": "|u1"}

    def encode(self, examples: Sequence[Question], processor: EncoderProcessor) -> Iterator[tuple[Record, bool]]:
        """Yield the windows over the text of each question."""
        for example in examples:
            told = {"question": example.question, "answers": [answer.text for answer in example.answers]}
            for window in windows_of(processor.tokenizer, processor.rows, example.question, example.context):
                yield Record(columns_of(example, window, told), example.line), window.is_cut

    def learner(self, recipe: AnswerRecipe, processor: EncoderProcessor) -> AnswerLearner:
        """Return what the loop sees."""
        return AnswerLearner(recipe, processor)

    def open(self, opening: Opening) -> Answerer:
        """Return what answers questions with the model of a folder."""
        from sixfold.tasks.understand.answerer import Answerer

        return Answerer.load(opening.folder, opening.device, opening.precision)

    def describe(self, surveyed: Survey[Question], recipe: AnswerRecipe) -> Iterator[str]:
        """Yield a description of the data."""
        yield from super().describe(surveyed, recipe)
        without = sum(not example.answers for example in surveyed.sample)
        if without:
            yield f"{without / len(surveyed.sample):.0%} of the questions have no answer in their text"
        yield "long texts are read in windows that overlap by half"


def columns_of(example: Question, window: Window, told: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a window; its JSON has the part of the text that it shows."""
    places = [span for span in window.spans if span[0] < span[1]]
    begin, end = (places[0][0], places[-1][1]) if places else (0, 0)
    answers = (trimmed(example.context, each.start, each.start + len(each.text)) for each in example.answers)
    answer = next(answers, (0, 0))
    spans = [place - begin if first < last else 0 for first, last in window.spans for place in (first, last)]
    content = json.dumps({**told, "text": example.context[begin:end]}).encode()
    return {
        "tokens": window.row.tokens,
        "types": window.row.types,
        "bounds": list(bounds_of(window, answer)),
        "spans": spans,
        "asked": hash_texts([f"{example.line}\0{example.question}\0{example.context}"]),
        "json": np.frombuffer(content, dtype=np.uint8),
    }


class AnswerLearner(EncoderLearner):
    """Questions with a recipe and a processor."""

    head = "span"
    recipe: AnswerRecipe

    def targets(self, records: Records, seed: int) -> tuple[dict[str, Tensor], int]:
        """Return the first and the last token (B, 2) of each answer; the first of the row where there is none."""
        del seed  # nothing is random
        bounds = np.stack([record["bounds"] for record in records.values])
        return {"bounds": torch.from_numpy(bounds.astype(np.int64))}, len(records.ids)

    def loss_of(self, answers: Tensor, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of start and end, summed over rows."""
        bounds = batch.tensors["bounds"]
        return sum(
            (F.cross_entropy(answers[..., side], bounds[:, side], reduction="sum") for side in (0, 1)),
            start=answers.new_zeros(()),
        ) / 2  # fmt: skip

    def score(self, answers: Sequence[NDArray[Any]], records: Sequence[Values]) -> Scores:
        """Return the F1 of words, and how many answers match exactly."""
        windows = defaultdict[int, list[tuple[NDArray[Any], Values]]](list)
        for logits, record in zip(answers, records, strict=True):
            windows[int(record["asked"][0])].append((logits, record))
        found = [answered(each, self.recipe.decode.no_answer) for each in windows.values()]
        f1 = [word_f1(said, told["answers"]) for said, told in found]
        exact = [exact_match(said, told["answers"]) for said, told in found]
        said, told = found[len(found) // 2]
        sample = Sample(told["question"], said or "no answer", " / ".join(told["answers"]) or "no answer")
        details = f"exact match {100 * np.mean(exact):.1f}"
        return Scores(
            "F1", 100 * float(np.mean(f1)), 0.5, "held-out questions, SQuAD's rules", sample, details=details
        )


def answered(windows: Sequence[tuple[NDArray[Any], Values]], may_be_none: bool) -> tuple[str, dict[str, Any]]:
    """Return the best answer of all windows of a question, or nothing, and what is known of the question."""
    best, text, told = -np.inf, "", dict[str, Any]()
    for logits, record in windows:
        told = json.loads(record["json"].tobytes())
        spans = [(first, last) for first, last in record["spans"].reshape(-1, 2).tolist()]
        found = best_candidate(logits.astype(np.float64), spans)
        if found is not None and found.score - found.no_answer > best:
            best, text = found.score - found.no_answer, told["text"][found.start : found.end]
    return ("" if may_be_none and best <= 0 else text), told
