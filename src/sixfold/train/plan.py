"""The plan: what to train, chosen from the corpus and the machine, with the reason for each choice."""

from __future__ import annotations

from dataclasses import dataclass

from sixfold.models.transformer import Transformer, TransformerConfig, count_parameters
from sixfold.train.prepare import Survey
from sixfold.train.recipe import Recipe, Wishes, make_recipe, merge

CHARACTERS_A_TOKEN = 3.5  # about, for the vocabularies chosen here


@dataclass(frozen=True)
class Plan:
    """A complete recipe and, in plain words, why it is this one."""

    recipe: Recipe
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def choose(surveyed: Survey, wishes: Wishes, device: str = "cpu") -> Plan:
    """Choose everything the user did not."""
    pairs = surveyed.num_pairs
    automatic, reasons = choices(surveyed, device)
    has_preset = bool({"preset", "d_model"} & wishes.get("model", {}).keys())
    if has_preset:  # a model of the user's own keeps none of ours
        automatic["model"] = {}
    recipe = make_recipe(merge(automatic, wishes))
    warnings = []
    if pairs < 2000:
        warnings.append(f"{pairs:,} pairs are very few: expect a model that knows these texts and little else.")
    parameters = parameter_count(recipe)
    if parameters > 500 * pairs:
        warnings.append(
            f"{parameters / 1e6:.1f}M parameters are many for {pairs:,} pairs: it will learn them by heart."
        )
    return Plan(recipe, tuple(reasons), tuple(warnings))


def choices(surveyed: Survey, device: str) -> tuple[Wishes, list[str]]:
    """Return the automatic recipe and its reasons."""
    pairs = surveyed.num_pairs
    vocabulary = pick(pairs, ((5_000, 2000), (20_000, 4000), (100_000, 8000), (1_000_000, 16000)), 32000)
    size, dropout = size_for(pairs, device)
    batch_tokens = pick(pairs, ((20_000, 2048), (200_000, 4096)), 8192) if device == "cpu" else 25_000
    epochs = max(4, min(200, round(40 * (29_000 / pairs) ** 0.5)))
    tokens = pairs * (surveyed.mean_characters / CHARACTERS_A_TOKEN + 1)
    steps = max(300, round(epochs * tokens / batch_tokens))
    wishes: Wishes = {
        "data": {"vocabulary": vocabulary},
        "model": {"preset": size, "dropout": dropout, "norm": "pre"},
        "train": {
            "steps": steps,
            "batch_tokens": batch_tokens,
            "schedule": "linear_decay",
            "learning_rate": 2e-3,
            "warmup_steps": max(20, min(400, steps // 20)),
            "max_grad_norm": 1.0,
            "checkpoint_every": max(50, steps // 25),
            "patience": 8,
        },
    }
    reasons = [
        f"{pairs:,} pairs, {surveyed.source_characters:.0f} and {surveyed.target_characters:.0f} characters each",
        f"{vocabulary:,} subwords for both languages: fewer for less text, so that each is seen often enough",
        f"the {size} model with dropout {dropout}: as large as this much text can teach",
        f"{epochs} passes over the text in {steps:,} steps of {batch_tokens:,} tokens, stopping early "
        "when translations of held-out text get no better",
    ]
    return wishes, reasons


def size_for(pairs: int, device: str) -> tuple[str, float]:
    """Return the preset and the dropout for this much text."""
    if pairs < 100_000:
        return "tiny", 0.3 if pairs > 5000 else 0.4
    if pairs < 1_000_000 or device == "cpu":
        return "small", 0.1
    return "base", 0.1


def pick(value: float, table: tuple[tuple[float, int], ...], otherwise: int) -> int:
    """Return the entry of the first row whose bound is above the value."""
    return next((entry for bound, entry in table if value < bound), otherwise)


def parameter_count(recipe: Recipe) -> int:
    """Return how many parameters the recipe's model has."""
    import torch

    config = TransformerConfig(**recipe.model.model_dump(), vocabulary=recipe.data.vocabulary)
    with torch.device("meta"):
        return count_parameters(Transformer(config))
