"""How a model translated one sentence: attention, token probabilities, beam search and positional encoding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from sixfold.decode.alignment import align_ids
from sixfold.decode.options import SearchOptions
from sixfold.decode.scoring import forced_batch
from sixfold.decode.search import BeamStep, Hypothesis
from sixfold.decode.translate import DEFAULTS, Translation, Translator
from sixfold.errors import ConfigError
from sixfold.explain.beam_tree import BeamTree, beam_tree
from sixfold.explain.head_roles import HeadRoles
from sixfold.explain.packed_attention import AttentionMaps, AttentionPacker
from sixfold.explain.page import NUM_ALTERNATIVES, Choice, Page, choice, model_facts
from sixfold.explain.page_tokens import PageToken, page_tokens
from sixfold.explain.positions import position_table
from sixfold.explain.translation_heads import head_roles_of
from sixfold.text.words import words

WIDEST_BEAM = 16  # a wider tree is not readable
ENSEMBLE = "An ensemble of {} models: their probabilities are averaged; the attention shown is that of the first."


@dataclass(frozen=True)
class Explanation(Page):
    """Everything that the page of a translation shows.

    Its stacks are `encoder`, from source tokens to source tokens; `decoder`, from the decoder's inputs (the BOS
    token and the target tokens) to each other; and `cross`, from target tokens to source tokens.
    """

    script = "translation_page"
    title = "Sixfold: explanation of a translation"

    source_language: str
    target_language: str
    source: str
    translation: str
    log_probability: float
    score: float
    source_tokens: tuple[PageToken, ...]  # with the EOS token
    target_tokens: tuple[PageToken, ...]  # with the EOS token
    links: tuple[tuple[int, int, float], ...]  # source word, target word, alignment weight
    choices: tuple[Choice, ...]  # one per target token
    tree: BeamTree


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
    model, tokenizer, info = translator.model, translator.tokenizer, translator.info
    config, eos = model.config, tokenizer.special.eos
    return Explanation(
        model=model_facts(name, (config.encoder_layers, config.decoder_layers), config, translator.models),
        notes=(*warnings(translator, text, translation), *limitations(translator)),
        attention=attention(translator, ids, tokens),
        head_roles=head_roles or head_roles_of(translator, [(ids, tokens)]),
        positions=position_table(model.source, config, max(len(ids), len(tokens)) + 1),
        source_language=info.languages.source if info else "",
        target_language=info.languages.target if info else "",
        source=tokenizer.decode(ids),
        translation=translation.text,
        log_probability=translation.log_probability,
        score=translation.score,
        source_tokens=page_tokens(tokenizer, [*ids, eos]),
        target_tokens=page_tokens(tokenizer, [*tokens, eos]),
        links=links(translator, ids, tokens),
        choices=tuple(choice(tokenizer, each) for each in scores),
        tree=beam_tree(steps, hypothesis.tokens, beam.beam, beam.alpha, tokenizer.pieces),
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


def warnings(translator: Translator, text: str, translation: Translation) -> tuple[str, ...]:
    """Return the quality warnings, as sentences."""
    return tuple(flag.message for flag in translator.flags(text, translation))


def limitations(translator: Translator) -> Iterator[str]:
    """Yield what the page cannot show."""
    if len(translator.models) > 1:
        yield ENSEMBLE.format(len(translator.models))


def links(translator: Translator, source: list[int], target: list[int]) -> tuple[tuple[int, int, float], ...]:
    """Return the word alignment as word indices and weights."""
    [found] = align_ids(translator.models, translator.tokenizer, [source], [target])
    numbers = [
        {start: number for number, (start, _) in enumerate(words(translator.tokenizer.decode(ids)))}
        for ids in (source, target)
    ]
    return tuple((numbers[0][each.source_start], numbers[1][each.target_start], each.weight) for each in found)


@torch.inference_mode()
def attention(translator: Translator, source: list[int], target: list[int]) -> AttentionMaps:
    """Return the attention of the first model for a pair of token ids (without BOS and EOS)."""
    model, config = translator.model, translator.model.config
    source_in, target_in, _ = forced_batch(model, translator.tokenizer.special, [source], [target])
    num_rows = config.encoder_layers * source_in.size(1) + 2 * config.decoder_layers * target_in.size(1)
    packer = AttentionPacker(config.heads * num_rows)
    model.hidden(source_in, target_in, packer.add)
    return packer.maps()
