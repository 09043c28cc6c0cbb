"""How a model continued a text, or reads a given one: attention, token probabilities, positions.

The tokens that the model reads are all but the last: nothing attends to the last one yet. The probabilities are
those of the engine that writes, so they are what `sixfold generate --json` and `sixfold score --json` report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sixfold.decode.generate import DEFAULTS, Conversation, Generator, as_messages
from sixfold.decode.generate_options import GenerateOptions, GeneratePlan
from sixfold.decode.scoring import TokenScore
from sixfold.decode.text_scoring import TextScore
from sixfold.errors import ConfigError, DataError, RequestError
from sixfold.explain.head_roles import HeadRoles
from sixfold.explain.packed_attention import AttentionMaps, AttentionPacker, most_tokens
from sixfold.explain.page import NUM_ALTERNATIVES, Choice, Page, choice, model_facts
from sixfold.explain.page_tokens import PageToken, page_tokens
from sixfold.explain.positions import position_table
from sixfold.explain.text_heads import STACK, text_head_roles, watch_attention

NEW_TOKENS = 24  # unless more are asked for: with a short prompt, a text that can be shown as arcs
GREEDY = "Greedy: each token is the most probable one that may follow."
DRAWN = "Drawn with {}, as sixfold generate draws. The probabilities are the model's own, before that choice."
READ = "Log-probability {:.2f}, {:.3f} bits per byte, perplexity {:.2f}: as sixfold score reads it."
INT8 = "The probabilities are those of the int8 weights; the attention is computed in float32."


@dataclass(frozen=True)
class TextExplanation(Page):
    """Everything that the page of a text shows. Its only stack is `self`: each token and those before it."""

    script = "text_page"
    title = "Sixfold: explanation of a text"

    text: str  # that was given: a prompt, or a text to read
    continuation: str  # that the model wrote
    is_answer: bool  # to a message; not more of the same text
    how: str  # the model wrote, or what it thinks of the text as a whole
    tokens: tuple[PageToken, ...]
    num_given: int  # of the tokens: those after them were written
    choices: tuple[Choice, ...]  # one per token but the first, which nothing stands before


def explain_continuation(
    generator: Generator,
    prompt: str | Conversation,
    options: GenerateOptions = DEFAULTS,
    head_roles: HeadRoles | None = None,
    name: str = "",
) -> TextExplanation:
    """Continue a prompt, or answer a conversation, and return how the model did it.

    The text is the one that `generator.continuations` gives with these options, NEW_TOKENS tokens of it unless
    they say how many. `head_roles` come from `measure_text_heads`, or are measured on this text alone.
    """
    refuse_unexplainable(options)
    if isinstance(prompt, str):
        ids, text = generator.encode(prompt), prompt
    else:
        ids, text = generator.encode_chat(as_messages(prompt)), as_messages(prompt)[-1].content
    refuse_too_long(generator, len(ids))
    wish = options.max_tokens or NEW_TOKENS
    most = min(wish, min(capacities(generator)) + 1 - len(ids))
    [[written]] = generator.written([ids], replace(options, max_tokens=most))
    is_cut = written.finished == "length" and most < wish
    scores = generator.token_scores([*ids, *written.tokens], options.alternatives or NUM_ALTERNATIVES)
    page = page_of(generator, ids[0], scores, head_roles, name)
    return replace(
        page,
        notes=(*page.notes, *([full(generator)] if is_cut else [])),
        text=text,
        continuation=written.text,
        is_answer=not isinstance(prompt, str),
        how=how_written(written.plan),
        num_given=len(ids),
    )


def explain_text(
    generator: Generator, text: str, head_roles: HeadRoles | None = None, name: str = ""
) -> TextExplanation:
    """Return how a model reads a text, from the token that begins it to the one that ends it."""
    tokenizer = generator.tokenizer
    ids = [generator.start_token, *tokenizer.encode(text), tokenizer.special.eos]
    if len(ids) == 2:
        raise DataError("There is no text to read.", 'sixfold explain MODEL --read "Once upon a time"')
    refuse_too_long(generator, len(ids) - 1)
    scores = generator.token_scores(ids, NUM_ALTERNATIVES)
    score = TextScore(len(text.encode()), tuple(ids[1:]), tuple(each.log_probability for each in scores))
    how = READ.format(score.log_probability, score.bits_per_byte, score.perplexity)
    return replace(page_of(generator, ids[0], scores, head_roles, name), text=text, how=how)


def refuse_unexplainable(options: GenerateOptions) -> None:
    """Refuse what one text in one context does not have."""
    for name in ("samples", "slide"):
        if getattr(options, name) != getattr(DEFAULTS, name):
            raise ConfigError(
                f"One text in one context can be explained, not one with {name}.", f"Leave {name} out."
            )


def capacities(generator: Generator) -> tuple[int, int]:
    """Return how many tokens the model's context holds, and a page with all of its heads."""
    config = generator.model.config
    return generator.engine.max_positions, most_tokens(config.layers * config.heads)


def refuse_too_long(generator: Generator, num_read: int) -> None:
    """Refuse so many tokens if the context or the page does not hold them."""
    context, page = capacities(generator)
    if num_read > min(context, page):
        holder = "the model's context" if context <= page else "a page with every head of this model"
        raise RequestError(
            f"The text has {num_read:,} tokens, but {holder} holds {min(context, page):,}.", "Shorten the text."
        )


def full(generator: Generator) -> str:
    """Return why a text ends early."""
    context, page = capacities(generator)
    what = "the model's context" if context <= page else "the page"
    return f"The text ends here because {what} holds {min(context, page):,} tokens."


def page_of(
    generator: Generator, first: int, scores: Sequence[TokenScore], head_roles: HeadRoles | None, name: str
) -> TextExplanation:
    """Return the page of a first token and those after it as if all were given, its text yet to be filled in."""
    model, tokenizer = generator.model, generator.tokenizer
    config, ids = model.config, [first, *(each.token for each in scores)]
    read = ids[:-1]
    return TextExplanation(
        model=model_facts(name, (config.layers,), config, [model]),
        notes=(INT8,) if generator.precision == "int8" else (),
        attention=attention(generator, read),
        head_roles=head_roles or text_head_roles(generator, [read]),
        positions=position_table(model.stem, config, len(read)),
        text="",
        continuation="",
        is_answer=False,
        how="",
        tokens=page_tokens(tokenizer, ids),
        num_given=len(ids),
        choices=tuple(choice(tokenizer, each) for each in scores),
    )


def attention(generator: Generator, ids: Sequence[int]) -> AttentionMaps:
    """Return the attention of every head between these tokens."""
    config = generator.model.config
    packer = AttentionPacker(config.layers * config.heads * len(ids))
    watch_attention(generator, ids, partial(packer.add, STACK))
    return packer.maps()


def how_written(plan: GeneratePlan) -> str:
    """Return how the tokens of a text were chosen."""
    sampling = plan.sampling
    penalty = f"repetition penalty {plan.repetition_penalty:g}"
    if sampling is None:
        return GREEDY if plan.repetition_penalty == 1 else f"{GREEDY} It is chosen with {penalty}."
    choices = [
        (f"temperature {sampling.temperature:g}", True),
        (f"top-k {sampling.top_k}", sampling.top_k > 0),
        (f"top-p {sampling.top_p:g}", sampling.top_p < 1),
        (f"min-p {sampling.min_p:g}", sampling.min_p > 0),
        (penalty, plan.repetition_penalty != 1),
        (f"seed {plan.seed}", True),
    ]
    return DRAWN.format(", ".join(said for said, is_used in choices if is_used))
