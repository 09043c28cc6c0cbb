"""What a model did with one sentence: where it looked, what it chose and what it left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from sixfold.decode.alignment import align_ids
from sixfold.decode.batch_decoder import num_positions
from sixfold.decode.options import SearchOptions
from sixfold.decode.scoring import TokenScore, forced_batch
from sixfold.decode.search import BeamStep, Hypothesis
from sixfold.decode.translate import DEFAULTS, Translation, Translator
from sixfold.errors import ConfigError
from sixfold.explain.beam_tree import BeamTree, beam_tree
from sixfold.explain.habits import Habits, habits_of
from sixfold.explain.tokens import NO_WORD, Token, tokens_of
from sixfold.explain.weights import Layer, affordable, compress, pack
from sixfold.models.encoder_decoder import Kind, count_parameters
from sixfold.text.words import words

WIDEST_BEAM = 16  # a wider tree cannot be read
SEVERAL = "{} models are averaged here: they chose the words together. The attention shown is that of the first."
NUM_ALTERNATIVES = 8
FEWEST_POSITIONS, MOST_POSITIONS = 64, 128  # of the positional encoding
MIDDLE = 127  # the byte that stands for 0
LOWEST = -1000.0  # log-probability


@dataclass(frozen=True)
class ModelFacts:
    """What a reader should know about the model."""

    name: str
    source_language: str
    target_language: str
    encoder_layers: int
    decoder_layers: int
    heads: int
    d_model: int
    parameters: int
    positions: str  # sinusoidal or learned


@dataclass(frozen=True)
class Choice:
    """One written token: how probable it was, and what else was."""

    log_probability: float
    alternatives: tuple[tuple[str, float], ...]  # the most probable tokens and their log-probabilities


@dataclass(frozen=True)
class Attention:
    """Where the model looked, layer by layer."""

    largest: int  # how many weights of each row were kept, where there are more
    encoder: tuple[Layer, ...]  # source tokens to source tokens
    decoder: tuple[Layer, ...]  # tokens read so far, begin mark first, to each other
    cross: tuple[Layer, ...]  # tokens written, end mark last, to source tokens


@dataclass(frozen=True)
class Positions:
    """The positional encoding of the first positions, as bytes: -1 is 0, 1 is 254."""

    length: int
    d_model: int
    scale: float  # what 1 stands for
    table: str  # deflated, in base64


@dataclass(frozen=True)
class Explanation:
    """All that a page shows. `asdict` gives plain data for JSON."""

    model: ModelFacts
    source: str
    translation: str
    log_probability: float
    score: float
    notes: tuple[str, ...]  # reasons to look twice
    source_tokens: tuple[Token, ...]  # end mark included
    target_tokens: tuple[Token, ...]  # end mark included
    links: tuple[tuple[int, int, float], ...]  # source word, target word, share of the attention
    choices: tuple[Choice, ...]  # one for each target token
    attention: Attention
    tree: BeamTree
    habits: Habits
    positions: Positions


def explain(
    translator: Translator,
    text: str,
    options: SearchOptions = DEFAULTS,
    habits: Habits | None = None,
    name: str = "",
) -> Explanation:
    """Translate a text and return how that went.

    `habits` (`find_habits`) tell what each head tends to do; without them, they are measured on this text alone.
    """
    options = explainable(translator, options)
    [ids], [is_cut] = translator.encode([text])
    if not ids:
        raise ConfigError("There is no text to explain.", 'sixfold explain MODEL "A man is sleeping."')
    hypothesis, steps = watched_search(translator, options, ids)
    beam = translator.decoder.plan(options).beam
    translation, tokens = translator.finish(hypothesis, is_cut), list(hypothesis.tokens[:-1])
    [scores] = translator.token_scores([text], [[translation]], NUM_ALTERNATIVES)
    pieces = translator.tokenizer.pieces
    return Explanation(
        model=facts(translator, name),
        source=translator.tokenizer.decode(ids),
        translation=translation.text,
        log_probability=translation.log_probability,
        score=translation.score,
        notes=(*notes(translator, text, translation), *how_chosen(translator)),
        source_tokens=with_end(translator, ids),
        target_tokens=with_end(translator, tokens),
        links=links(translator, ids, tokens),
        choices=tuple(choice(translator, each) for each in scores),
        attention=attention(translator, ids, tokens),
        tree=beam_tree(steps, hypothesis.tokens, beam.beam, beam.alpha, pieces),
        habits=habits or habits_of(translator, [(ids, tokens)]),
        positions=positions(translator, max(len(ids), len(tokens)) + 1),
    )


def explainable(translator: Translator, options: SearchOptions) -> SearchOptions:
    """Return the options of the search to watch; only a beam has a tree."""
    for name in ("sample", "require"):
        if getattr(options, name):
            raise ConfigError(f"A search with {name} has no beam tree to explain.", f"Leave {name} out.")
    options = replace(options, n_best=1)
    beam = translator.decoder.plan(options).beam.beam
    if beam > WIDEST_BEAM:
        raise ConfigError(
            f"A beam of at most {WIDEST_BEAM} can be shown, but it is {beam}.", f"Add --beam {WIDEST_BEAM}"
        )
    return options


def watched_search(
    translator: Translator, options: SearchOptions, ids: list[int]
) -> tuple[Hypothesis, list[BeamStep]]:
    """Return the translation that `translator.search` finds, and the steps to it."""
    steps: list[BeamStep] = []
    [found] = translator.decoder.search([ids], options, [0], steps.append).run()
    if not found:
        raise ConfigError("No translation has all that is asked for and nothing forbidden.")
    return found[0], steps


def facts(translator: Translator, name: str) -> ModelFacts:
    """Return what a reader should know about the model."""
    config, info = translator.model.config, translator.info
    return ModelFacts(
        name=name,
        source_language=info.languages.source if info else "",
        target_language=info.languages.target if info else "",
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        heads=config.heads,
        d_model=config.d_model,
        parameters=sum(map(count_parameters, translator.models)),
        positions=config.positions,
    )


def notes(translator: Translator, text: str, translation: Translation) -> tuple[str, ...]:
    """Return reasons to look twice, in plain words."""
    return tuple(flag.message for flag in translator.flags(text, translation))


def how_chosen(translator: Translator) -> Iterator[str]:
    """Yield what the picture of one model's beam does not show."""
    if len(translator.models) > 1:
        yield SEVERAL.format(len(translator.models))


def with_end(translator: Translator, ids: list[int]) -> tuple[Token, ...]:
    """Return the tokens of a text and its end mark."""
    [end] = translator.tokenizer.pieces([translator.tokenizer.special.eos])
    return (*tokens_of(translator.tokenizer, ids), Token(end, NO_WORD))


def links(translator: Translator, source: list[int], target: list[int]) -> tuple[tuple[int, int, float], ...]:
    """Return which words belong together, by their numbers."""
    [found] = align_ids(translator.models, translator.tokenizer, [source], [target])
    numbers = [
        {start: number for number, (start, _) in enumerate(words(translator.tokenizer.decode(ids)))}
        for ids in (source, target)
    ]
    return tuple((numbers[0][each.source_start], numbers[1][each.target_start], each.weight) for each in found)


def choice(translator: Translator, score: TokenScore) -> Choice:
    """Return how a token was chosen."""
    pieces = translator.tokenizer.pieces([token for token, _ in score.alternatives])
    probable = zip(pieces, (rounded(number) for _, number in score.alternatives), strict=True)
    return Choice(rounded(score.log_probability), tuple(probable))


def rounded(number: float) -> float:
    """Return a log-probability as exact as a page can show it; JSON has no infinity."""
    return round(max(number, LOWEST), 5)


@torch.inference_mode()
def attention(translator: Translator, source: list[int], target: list[int]) -> Attention:
    """Return where the translator's first model looks for a pair of token ids (without marks)."""
    model, config = translator.model, translator.model.config
    source_in, target_in, _ = forced_batch(model, translator.tokenizer.special, [source], [target])
    num_rows = config.encoder_layers * source_in.size(1) + 2 * config.decoder_layers * target_in.size(1)
    largest = affordable(config.heads * num_rows)
    layers: dict[Kind, list[Layer]] = {"encoder": [], "decoder": [], "cross": []}
    model.hidden(source_in, target_in, lambda kind, w: layers[kind].append(pack(w[0].float(), largest)))
    return Attention(largest, *(tuple(layers[kind]) for kind in ("encoder", "decoder", "cross")))


@torch.inference_mode()
def positions(translator: Translator, length: int) -> Positions:
    """Return the encoding of the first positions of the source, at least FEWEST and at most MOST."""
    model = translator.model
    length = min(max(length, FEWEST_POSITIONS), MOST_POSITIONS, num_positions(model))
    table = model.source.positions(0, length).float().cpu()
    scale = max(float(table.abs().max()), 1e-9)
    content = ((table / scale + 1) * MIDDLE).round().to(torch.uint8).numpy()
    return Positions(length, model.config.d_model, round(scale, 6), compress(content))
