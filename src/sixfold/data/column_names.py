"""What columns of labelled texts are called: names that tell what a table holds."""

from __future__ import annotations

LABEL_NAMES = (
    "label", "labels", "class", "category", "categories", "sentiment", "intent", "topic", "rating", "stars",
    "score", "similarity", "emotion", "is_duplicate", "entailment", "gold_label",
)  # fmt: skip
TEXT_NAMES = (
    "text", "sentence", "review", "content", "comment", "message", "tweet", "question", "document", "body",
    "description", "headline", "title", "utterance", "passage", "input",
)  # fmt: skip
PAIR_NAMES = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2"), ("text_a", "text_b"),
    ("text1", "text2"), ("sentence_a", "sentence_b"), ("query", "passage"), ("query", "document"),
    ("question", "sentence"), ("question", "passage"),
)  # fmt: skip
KNOWN_NAMES = frozenset((*LABEL_NAMES, *TEXT_NAMES, *(name for pair in PAIR_NAMES for name in pair)))


def are_labelled(names: list[str]) -> bool:
    """Return whether columns of these names are a text and its label."""
    known = {name.casefold().strip() for name in names}
    has_text = not known.isdisjoint(KNOWN_NAMES.difference(LABEL_NAMES))
    return has_text and not known.isdisjoint(LABEL_NAMES)
