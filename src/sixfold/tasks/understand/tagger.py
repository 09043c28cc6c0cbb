"""Tag the words of texts or find entities, with their positions in the raw text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.tagged import are_entities, entities_of
from sixfold.errors import RequestError
from sixfold.tasks.understand.predictor import Predictor
from sixfold.tasks.understand.processor import encode_words
from sixfold.text.encoder_row import EncoderRow
from sixfold.text.located import Span
from sixfold.text.words import words


@dataclass(frozen=True)
class TextToTag:
    """A text, and where its words stand."""

    text: str
    words: Sequence[Span]


@dataclass(frozen=True)
class TaggedWord:
    """A word with its position in the raw text and its tag."""

    text: str
    start: int
    end: int
    tag: str
    probability: float


@dataclass(frozen=True)
class FoundEntity:
    """An entity, which is `text[start:end]` of the raw text."""

    text: str
    start: int
    end: int
    label: str
    probability: float  # of the least certain of its words


@dataclass(frozen=True)
class Tagging:
    """What a tagger says of a text."""

    words: tuple[TaggedWord, ...]
    entities: tuple[FoundEntity, ...]  # where the tags mark entities
    is_cut: bool  # whether the end of the text was not read


class Tagger(Predictor):
    """An encoder that tags words."""

    task = "tag"

    def tag(self, texts: Sequence[str], on_progress: OnProgress = no_progress) -> list[Tagging]:
        """Tag the words of texts."""
        if isinstance(texts, str):
            raise RequestError("tag takes a list of texts.", f"Write tag([{texts[:20]!r}…])")
        return self.tag_words([TextToTag(text, words(text)) for text in texts], on_progress)

    def tag_words(self, texts: Sequence[TextToTag], on_progress: OnProgress = no_progress) -> list[Tagging]:
        """Tag the words of texts that are divided already."""
        encoded = [encode_words(self.tokenizer, [each.text[a:b] for a, b in each.words]) for each in texts]
        rows = [self.rows.one([token for word in each for token in word]) for each in encoded]
        answers = self.answers(rows, on_progress)
        return [
            self.tagging(text, tokens, logits, row)
            for text, tokens, logits, row in zip(texts, encoded, answers, rows, strict=True)
        ]

    def tagging(self, text: TextToTag, encoded: Sequence[list[int]], logits: Tensor, row: EncoderRow) -> Tagging:
        """Return the tags of the words that were read."""
        found, place = list[TaggedWord](), 1
        chances = logits.double().softmax(dim=-1)
        for (start, end), tokens in zip(text.words, encoded, strict=True):
            if place >= len(row.tokens) - 1:
                break
            chance, best = chances[place].max(dim=-1)
            name = self.labels.names[int(best)]
            found.append(TaggedWord(text.text[start:end], start, end, name, float(chance)))
            place += len(tokens)
        entities = self.entities(text.text, found) if are_entities(self.labels.names) else ()
        return Tagging(tuple(found), entities, len(found) < len(text.words))

    def entities(self, text: str, found: Sequence[TaggedWord]) -> tuple[FoundEntity, ...]:
        """Return the entities that tags mark."""
        return tuple(
            FoundEntity(
                text[found[each.start].start : found[each.end - 1].end],
                found[each.start].start,
                found[each.end - 1].end,
                each.label,
                min(word.probability for word in found[each.start : each.end]),
            )
            for each in entities_of([word.tag for word in found])
        )
