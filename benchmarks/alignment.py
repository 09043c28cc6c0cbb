"""How often word alignments from attention are right, for words that must belong together.

    python benchmarks/alignment.py MODEL TRAIN.SOURCE TRAIN.TARGET TEST.SOURCE TEST.TARGET

These must: identical words (names, numbers, signs other than the full stop), and words that are each other's
most frequent companion in the training text (Dice at least 0.5), each standing once in its sentence.
The model reads the reference translation. Every rule names one source word for each target word.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from report import Record, publish, record
from sixfold.data.readers import open_pairs
from sixfold.decode.alignment import balanced, source_attention, to_words, word_weights, words_of
from sixfold.decode.scoring import forced_batch
from sixfold.decode.translate import Translator, load
from sixfold.text.words import words

Rule = Callable[["Example"], Tensor]  # the weight of each source word for each target word
LIKELY, SEEN = 0.5, 5  # Dice, and in how many pairs
SMALL_WORDS = {"a", "an", "the", "of", "in", "."}  # too many meanings to be sure of


@dataclass(frozen=True)
class Example:
    """A pair of sentences, all cross-attention between their words, and the words that must belong together."""

    ours: Tensor  # (target words, source words) by the rule of decode/alignment.py
    predicting: Tensor  # (layers, heads, target words, source words) when a target word is predicted
    reading: Tensor  # the same one step later, when it is the decoder's input
    anchors: list[tuple[str, int, int]]  # kind, target word, source word


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "train_source", "train_target", "test_source", "test_target"):
        parser.add_argument(name)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="200 sentences, and words of 10,000 training pairs")
    options = parser.parse_args()
    dictionary = companions(
        islice(lowered(options.train_source, options.train_target), 10_000 if options.quick else None)
    )
    test = list(open_pairs(options.test_source, options.test_target))[: 200 if options.quick else None]
    translator = load(options.model)
    examples = [make_example(translator, pair.source, pair.target, dictionary) for pair in test if pair.source]
    publish(list(measure(examples)), "Words that must belong together and do", options.json)


def lowered(source: str, target: str) -> Iterator[tuple[set[str], set[str]]]:
    """Yield the words of each pair of a text."""
    for pair in open_pairs(source, target):
        yield set(cut_out(pair.source)), set(cut_out(pair.target))


def cut_out(text: str) -> list[str]:
    """Return the words of a text in small letters."""
    return [text[start:end].lower() for start, end in words(text)]


def companions(pairs: Iterator[tuple[set[str], set[str]]]) -> set[tuple[str, str]]:
    """Return the words that are each other's most frequent companion."""
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for source, target in pairs:
        sources.update(source)
        targets.update(target)
        both.update((s, t) for s in source for t in target)
    dice = {(s, t): 2 * n / (sources[s] + targets[t]) for (s, t), n in both.items() if n >= SEEN}
    best_target = {s: t for (s, t), _ in sorted(dice.items(), key=lambda item: item[1])}
    best_source = {t: s for (s, t), _ in sorted(dice.items(), key=lambda item: item[1])}
    return {
        (s, t)
        for (s, t), value in dice.items()
        if value >= LIKELY and best_target[s] == t and best_source[t] == s and s.isalpha() and t.isalpha()
    }


@torch.inference_mode()
def make_example(translator: Translator, source: str, target: str, dictionary: set[tuple[str, str]]) -> Example:
    """Run the model over a pair."""
    tokenizer, model = translator.tokenizer, translator.model
    source_ids, target_ids = tokenizer.encode(source), tokenizer.encode(target)
    (_, source_shares), (_, target_shares) = words_of(tokenizer, source_ids), words_of(tokenizer, target_ids)
    given, target_in, _ = forced_batch(model, tokenizer.special, [source_ids], [target_ids])
    seen: list[Tensor] = []  # of each layer
    model.hidden(given, target_in, lambda kind, weights: seen.append(weights[0]) if kind == "cross" else None)
    cross = torch.stack(seen)[..., : len(source_ids)]  # without the end token
    attention = source_attention(model, tokenizer.special, [source_ids], [target_ids])[0, :-1, :-1]
    return Example(
        ours=word_weights(attention, source_shares, target_shares),
        predicting=to_words(cross[:, :, :-1], source_shares, target_shares),
        reading=to_words(cross[:, :, 1:], source_shares, target_shares),
        anchors=find_anchors(cut_out(source), cut_out(target), dictionary),
    )


def find_anchors(
    source: list[str], target: list[str], dictionary: set[tuple[str, str]]
) -> list[tuple[str, int, int]]:
    """Return the words that must belong together."""
    anchors = []
    for i, s in enumerate(source):
        for j, t in enumerate(target):
            if source.count(s) == target.count(t) == 1 and s not in SMALL_WORDS:
                if s == t:
                    anchors.append(("identical", j, i))
                elif (s, t) in dictionary:
                    anchors.append(("dictionary", j, i))
    return anchors


def rules(layers: int, heads: int) -> dict[str, Rule]:
    """Return the rules to compare, by name."""
    found: dict[str, Rule] = {
        "sixfold (all, balanced)": lambda each: each.ours,
        "all": lambda each: each.predicting.mean((0, 1)),
        "all, one step later": lambda each: each.reading.mean((0, 1)),
        "each balanced, then all": lambda each: balanced(each.predicting).mean((0, 1)),
        "diagonal": lambda each: diagonal(*each.ours.shape),
    }
    for layer in range(layers):
        found[f"layer {layer + 1}"] = lambda each, n=layer: each.predicting[n].mean(0)
        found[f"layer {layer + 1}, balanced"] = lambda each, n=layer: balanced(each.predicting[n].mean(0))
        for head in range(heads):
            found[f"layer {layer + 1} head {head + 1}"] = lambda each, n=layer, h=head: each.predicting[n, h]
    return found


def diagonal(num_targets: int, num_sources: int) -> Tensor:
    """Return weights that prefer the word in the same place."""
    target, source = torch.arange(num_targets) + 0.5, torch.arange(num_sources) + 0.5
    return -(target[:, None] / num_targets - source[None] / num_sources).abs()


def measure(examples: list[Example]) -> Iterator[Record]:
    """Yield the share of anchors that each rule finds."""
    for name, rule in rules(*examples[0].predicting.shape[:2]).items():
        hits: dict[str, list[bool]] = {"identical": [], "dictionary": []}
        for example in examples:
            chosen = rule(example).argmax(1) if example.anchors else None
            for kind, j, i in example.anchors:
                hits[kind].append(int(chosen[j]) == i)
        for kind, found in hits.items():
            share = 100 * sum(found) / max(1, len(found))
            yield record("alignment", f"{kind} ({len(found):,})", name, "agreement", [share], "%")


if __name__ == "__main__":
    main()
