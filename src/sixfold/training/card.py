"""The model card: a README.md that describes a model, what it was made from and how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from sixfold.models.folder import ModelInfo


@dataclass(frozen=True)
class Card:
    """What a task knows of its model that the card of every model says."""

    title: str
    examples: str  # that it was trained on, with their number
    command: str  # that runs it, in its folder
    rows: Mapping[str, str]  # of the table, by their heading
    expectation: str  # of its scores on other text than it was validated on
    caution: str  # what not to trust it with


def model_card(card: Card, info: ModelInfo, parameters: int) -> str:
    """Return the text of a card."""
    rows = {**card.rows, "parameters": f"{parameters:,}", "validation": validation(info)}
    table = "".join(f"| {heading} | {content} |\n" for heading, content in rows.items())
    return f"""# {card.title}

{how_it_was_made(info)} with Sixfold {info.sixfold} from {card.examples} ({file_names(info)}).

    {card.command}

| | |
|---|---|
{table}{base_rows(info)}
The validation text is of the same kind as the training text: expect {card.expectation} on other text.
{card.caution}
Nothing in this folder is executed when it is loaded. `training/`, if it is there, is only needed to train further.
"""


def validation(info: ModelInfo) -> str:
    """Return what the published weights scored in validation."""
    best = info.scores.get("validation")
    if not isinstance(best, dict):
        return "none"
    score = f"{best['name']} {best['score']:.{best.get('decimals', 1)}f}, loss {best['loss']:.3f}"
    return f"{score} at step {best['step']} ({best['weights']}; {best['conditions']})"


def how_it_was_made(info: ModelInfo) -> str:
    """Return how the model was made: trained from scratch, or fine-tuned from which base."""
    base = info.training.get("base")
    return f"Fine-tuned from the model {base['name']}" if isinstance(base, dict) else "Trained"


def file_names(info: ModelInfo) -> str:
    """Return the names of the files of the training text."""
    files = info.corpus.get("files")
    return (
        ", ".join(str(file["path"]) for file in files if isinstance(file, dict)) if isinstance(files, list) else ""
    )


def base_rows(info: ModelInfo) -> str:
    """Return the rows that compare a fine-tuned model with its base; none for a model trained from scratch."""
    base, scores, best = info.training.get("base"), info.scores.get("base"), info.scores.get("validation")
    if not (isinstance(base, dict) and isinstance(scores, dict) and isinstance(best, dict)):
        return ""
    name, digits = str(best["name"]), f".{best.get('decimals', 1)}f"
    digests = " and ".join(map(str, cast("list[str]", base["sha256"])))
    kept = "; no model was better, so these are its weights" if best["step"] == 0 else ""
    own, base_own = best.get("own_score"), scores.get("own_score")
    known = (
        f"{name} {own:{digits}}; the base: {base_own:{digits}}"
        if own is not None
        else "not measured, because it was missing"
    )
    return (
        f"| base model | {base['name']}, SHA-256 of its weights {digests} |\n"
        f"| the base on the same validation text | {name} {scores['score']:{digits}}{kept} |\n"
        f"| the base's own validation text | {known} |\n"
    )
