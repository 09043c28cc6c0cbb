"""The parts of a model card that all tasks share: how the model was made."""

from __future__ import annotations

from typing import cast

from sixfold.models.folder import ModelInfo


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
