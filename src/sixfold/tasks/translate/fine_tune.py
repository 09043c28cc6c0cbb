"""The plan for fine-tuning a translation model: a small learning rate, so that it keeps what it has learned.

The base decides shape, tokenizer and decoding defaults; the plan chooses how to train. The measurements behind the
learning rate, the length and the bound on forgetting are in `docs/log.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import cast

from sixfold.decode.config import decode_config
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.models.folder import Json
from sixfold.settings import Overrides
from sixfold.tasks.translate.plan import CHARACTERS_A_TOKEN
from sixfold.tasks.translate.prepare import Survey
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.training.base import Base, refuse_changed_base
from sixfold.training.fine_tuning import careful_schedule, explain_care
from sixfold.training.recipe import Plan, make_recipe, merge, minutes_of

RATE, RATE_OF_WIDE, WIDE = 1e-4, 5e-5, 512  # at most a tenth of the plan's rate for new models
MOST_EPOCHS, FEWEST_EPOCHS = 20, 3  # few pairs are repeated more often; many need only a few epochs
FEWEST_STEPS = 100
LEAST_DROPOUT = 0.1  # because few pairs are seen many times, whatever dropout the base had
MAX_FORGETTING = 1.0  # BLEU of greedy translations of the base's own validation text
LANGUAGE = re.compile(r"[a-z]{2,3}")


def inherit(base: Base, languages: Sequence[str], overrides: Overrides) -> Overrides:
    """Return what the base decides: shape, tokenizer and decoding defaults."""
    refuse_other_languages(base, languages)
    refuse_changed_base(overrides, ("vocabulary", "subwords"))
    shape = cast("EncoderDecoderConfig", base.info.model)
    own = shape.model_dump(exclude={"vocabulary", "pad_id"})
    own |= {"ensemble": len(base.info.weights), "dropout": max(shape.dropout, LEAST_DROPOUT)}
    decode = decode_config(base.info).model_dump()
    return {"model": own, "data": {"vocabulary": shape.vocabulary}, "decode": decode}


def refuse_other_languages(base: Base, languages: Sequence[str]) -> None:
    """Refuse text in other languages, by the names of its files, than the base translates."""
    own = (base.info.languages.source, base.info.languages.target)
    if tuple(languages) == own or not all(LANGUAGE.fullmatch(code) for code in (*own, *languages)):
        return
    raise ConfigError(
        f"The model in {base.folder} translates {own[0]} → {own[1]}, but this text is {languages[0]} → "
        f"{languages[1]}, by the names of its files.",
        "Give the two texts in the other order." if tuple(languages[::-1]) == own else
        f"Give {own[0]} and {own[1]} text, or if it is that, name the files text.{own[0]} and text.{own[1]}.",
    )  # fmt: skip


def choose_fine_tuning(surveyed: Survey, base: Base, overrides: Overrides) -> Plan:
    """Choose everything that neither the user nor the base decides."""
    automatic = choices(surveyed, overrides)
    recipe = make_recipe(TranslateRecipe, merge(TranslateRecipe, automatic, overrides))
    return Plan(recipe, tuple(explain(surveyed, base, recipe)), warnings=())


def choices(surveyed: Survey, overrides: Overrides) -> Overrides:
    """Return the automatic recipe for fine-tuning a model of this shape."""
    d_model, minutes = int(str(overrides["model"]["d_model"])), minutes_of(overrides)
    batch_tokens = 1024 if d_model <= 256 else 4096
    epoch_steps = surveyed.num_examples * (surveyed.mean_characters / CHARACTERS_A_TOKEN + 1) / batch_tokens
    steps = max(FEWEST_STEPS, round(usual_epochs(surveyed.num_examples) * epoch_steps))
    train: dict[str, Json] = {
        **careful_schedule(steps, minutes),
        "initialise": "random",
        "batch_tokens": batch_tokens,
        "learning_rate": RATE if d_model < WIDE else RATE_OF_WIDE,
        "warmup_steps": 20 if minutes else max(20, min(400, steps // 10)),
        "max_forgetting": MAX_FORGETTING,
    }
    return {"train": train}


def usual_epochs(pairs: int) -> float:
    """Return the epochs of a run without a time budget: the fewer the pairs, the more."""
    return max(FEWEST_EPOCHS, min(MOST_EPOCHS, MOST_EPOCHS * (1000 / pairs) ** 0.5))


def explain(surveyed: Survey, base: Base, recipe: TranslateRecipe) -> Iterator[str]:
    """Yield the choices, each with its reason."""
    model, train, decode = recipe.model, recipe.train, recipe.decode
    yield (
        f"{surveyed.num_examples:,} pairs, on average {surveyed.source_characters:.0f} and "
        f"{surveyed.target_characters:.0f} characters long"
    )
    several = f"{model.ensemble} models of " if model.ensemble > 1 else ""
    yield (
        f"fine-tunes {base.name}, whose {several}{model.encoder_layers} + {model.decoder_layers} layers of width "
        f"{model.d_model} and {recipe.data.vocabulary:,} subwords are kept, because its weights depend on them"
    )
    yield "starts from the base's weights, so embeddings are not initialised from word co-occurrence"
    yield f"dropout {model.dropout:g} from the first step, because the same pairs are seen many times"
    own = decode_config(base.info)
    why = ", as the base does" if (decode.beam, decode.length_penalty) == (own.beam, own.length_penalty) else ""
    yield f"translates with beam {decode.beam} and length penalty {decode.length_penalty}{why}"
    yield from explain_care(train, "BLEU")
