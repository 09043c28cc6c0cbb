"""How a model translated one sentence: attention, token probabilities, beam search and positional encoding."""

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
from sixfold.explain.head_roles import HeadRoles, head_roles_of
from sixfold.explain.packed_attention import PackedLayer, compress, max_weights_per_row, pack
from sixfold.explain.page_tokens import NO_WORD, PageToken, page_tokens
from sixfold.models.encoder_decoder import Kind, count_parameters
from sixfold.text.words import words

WIDEST_BEAM = 16  # a wider tree is not readable
ENSEMBLE = "An ensemble of {} models: their probabilities are averaged; the attention shown is that of the first."
NUM_ALTERNATIVES = 8
MIN_POSITIONS, MAX_POSITIONS = 64, 128  # of the positional encoding that is shown
ZERO_LEVEL = 127  # the byte that encodes 0
LOWEST = -1000.0  # log-probability; JSON has no infinity


@dataclass(frozen=True)
class ModelFacts:
    """The model, in numbers."""

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
    """The probability of one target token, and of its alternatives."""

    log_probability: float
    alternatives: tuple[tuple[str, float], ...]  # the most probable tokens and their log-probabilities


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every layer."""

    largest: int  # how many of the largest weights of each row are stored
    encoder: tuple[PackedLayer, ...]  # source tokens to source tokens
    decoder: tuple[PackedLayer, ...]  # decoder inputs, from the BOS token on, to each other
    cross: tuple[PackedLayer, ...]  # target tokens, up to the EOS token, to source tokens


@dataclass(frozen=True)
class PositionTable:
    """The positional encoding of the first positions; bytes 0, 127 and 254 encode -scale, 0 and scale."""

    length: int
    d_model: int
    scale: float  # the largest absolute value
    table: str  # zlib, in base64


@dataclass(frozen=True)
class Explanation:
    """Everything that the page shows; `asdict` returns it as JSON-compatible data."""

    model: ModelFacts
    source: str
    translation: str
    log_probability: float
    score: float
    notes: tuple[str, ...]  # quality warnings, and what the page cannot show
    source_tokens: tuple[PageToken, ...]  # with the EOS token
    target_tokens: tuple[PageToken, ...]  # with the EOS token
    links: tuple[tuple[int, int, float], ...]  # source word, target word, alignment weight
    choices: tuple[Choice, ...]  # one per target token
    attention: AttentionMaps
    tree: BeamTree
    head_roles: HeadRoles
    positions: PositionTable


def explain(
    translator: Translator,
    text: str,
    options: SearchOptions = DEFAULTS,
    head_roles: HeadRoles | None = None,
    name: str = "",
) -> Explanation:
    """Translate a text and return how the model did it.

    `head_roles` come from `measure_head_roles`; without them, they are measured on this text alone.
    """
    options = explainable(translator, options)
    [ids], [is_cut] = translator.encode([text])
    if not ids:
        raise ConfigError("There is no text to explain.", 'sixfold explain MODEL "A man is sleeping."')
    hypothesis, steps = traced_search(translator, options, ids)
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
        notes=(*warnings(translator, text, translation), *limitations(translator)),
        source_tokens=with_eos(translator, ids),
        target_tokens=with_eos(translator, tokens),
        links=links(translator, ids, tokens),
        choices=tuple(choice(translator, each) for each in scores),
        attention=attention(translator, ids, tokens),
        tree=beam_tree(steps, hypothesis.tokens, beam.beam, beam.alpha, pieces),
        head_roles=head_roles or head_roles_of(translator, [(ids, tokens)]),
        positions=positions(translator, max(len(ids), len(tokens)) + 1),
    )


def explainable(translator: Translator, options: SearchOptions) -> SearchOptions:
    """Return the options of the search to trace, which must be a beam search of a readable width."""
    for name in ("sample", "require"):
        if getattr(options, name):
            raise ConfigError(
                f"Only plain beam search can be explained, not one with {name}.", f"Leave {name} out."
            )
    options = replace(options, n_best=1)
    beam = translator.decoder.plan(options).beam.beam
    if beam > WIDEST_BEAM:
        raise ConfigError(
            f"At most {WIDEST_BEAM} hypotheses can be shown, but the beam is {beam}.", f"Add --beam {WIDEST_BEAM}"
        )
    return options


def traced_search(
    translator: Translator, options: SearchOptions, ids: list[int]
) -> tuple[Hypothesis, list[BeamStep]]:
    """Return the translation that `translator.search` would find, and every step of the search."""
    steps: list[BeamStep] = []
    [found] = translator.decoder.search([ids], options, [0], steps.append).run()
    if not found:
        raise ConfigError("No translation meets all constraints.", "Leave some out.")
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


def warnings(translator: Translator, text: str, translation: Translation) -> tuple[str, ...]:
    """Return the quality warnings, as sentences."""
    return tuple(flag.message for flag in translator.flags(text, translation))


def limitations(translator: Translator) -> Iterator[str]:
    """Yield what the page cannot show."""
    if len(translator.models) > 1:
        yield ENSEMBLE.format(len(translator.models))


def with_eos(translator: Translator, ids: list[int]) -> tuple[PageToken, ...]:
    """Return the tokens of a text and the EOS token."""
    [eos] = translator.tokenizer.pieces([translator.tokenizer.special.eos])
    return (*page_tokens(translator.tokenizer, ids), PageToken(eos, NO_WORD))


def links(translator: Translator, source: list[int], target: list[int]) -> tuple[tuple[int, int, float], ...]:
    """Return the word alignment as word indices and weights."""
    [found] = align_ids(translator.models, translator.tokenizer, [source], [target])
    numbers = [
        {start: number for number, (start, _) in enumerate(words(translator.tokenizer.decode(ids)))}
        for ids in (source, target)
    ]
    return tuple((numbers[0][each.source_start], numbers[1][each.target_start], each.weight) for each in found)


def choice(translator: Translator, score: TokenScore) -> Choice:
    """Return the probability of a token and of its alternatives, as text."""
    pieces = translator.tokenizer.pieces([token for token, _ in score.alternatives])
    probable = zip(pieces, (rounded(number) for _, number in score.alternatives), strict=True)
    return Choice(rounded(score.log_probability), tuple(probable))


def rounded(number: float) -> float:
    """Return a finite log-probability, to as many digits as the page shows."""
    return round(max(number, LOWEST), 5)


@torch.inference_mode()
def attention(translator: Translator, source: list[int], target: list[int]) -> AttentionMaps:
    """Return the attention of the first model for a pair of token ids (without BOS and EOS)."""
    model, config = translator.model, translator.model.config
    source_in, target_in, _ = forced_batch(model, translator.tokenizer.special, [source], [target])
    num_rows = config.encoder_layers * source_in.size(1) + 2 * config.decoder_layers * target_in.size(1)
    largest = max_weights_per_row(config.heads * num_rows)
    layers: dict[Kind, list[PackedLayer]] = {"encoder": [], "decoder": [], "cross": []}
    model.hidden(source_in, target_in, lambda kind, w: layers[kind].append(pack(w[0].float(), largest)))
    return AttentionMaps(largest, *(tuple(layers[kind]) for kind in ("encoder", "decoder", "cross")))


@torch.inference_mode()
def positions(translator: Translator, length: int) -> PositionTable:
    """Return the positional encoding of the source embedding, limited to MIN_POSITIONS and MAX_POSITIONS."""
    model = translator.model
    length = min(max(length, MIN_POSITIONS), MAX_POSITIONS, num_positions(model))
    table = model.source.positions(0, length).float().cpu()
    scale = max(float(table.abs().max()), 1e-9)
    content = ((table / scale + 1) * ZERO_LEVEL).round().to(torch.uint8).numpy()
    return PositionTable(length, model.config.d_model, round(scale, 6), compress(content))
