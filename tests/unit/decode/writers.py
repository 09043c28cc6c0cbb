"""Small decoder-only models with a tokenizer, and the slow way to write with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sixfold.decode.contexts import ContextEngine, open_contexts
from sixfold.decode.generate_options import GenerateOptions
from sixfold.decode.generation import Continuation, Generation
from sixfold.models.decoder_only import GPT, LLAMA, DecoderOnly, DecoderOnlyConfig
from sixfold.text import Tokenizer

KINDS = {"gpt": GPT, "llama": {**LLAMA, "key_value_heads": 2}}
GREEDY = GenerateOptions(temperature=0, max_tokens=12)


@dataclass(frozen=True)
class Writer:
    """A random model: what it writes is nonsense, but always the same."""

    model: DecoderOnly
    tokenizer: Tokenizer
    engine: ContextEngine

    def generation(self) -> Generation:
        """Return a generation in which nothing is written yet."""
        return Generation(self.engine, self.tokenizer, decoder_start=self.tokenizer.special.bos)

    def prompt(self, text: str) -> list[int]:
        """Return the tokens of a prompt."""
        return [self.tokenizer.special.bos, *self.tokenizer.encode(text)]

    def write(self, text: str, options: GenerateOptions = GREEDY, key: Sequence[int] = ()) -> list[Continuation]:
        """Continue one prompt with nothing else beside it."""
        generation = self.generation()
        found = generation.add(self.prompt(text), options, key)
        generation.run()
        return found

    @torch.no_grad()
    def log_probabilities(self, tokens: Sequence[int]) -> Tensor:
        """Return the log-probabilities (V,) after some tokens, without any cache."""
        return self.model(torch.tensor([[*tokens]]))[0, -1].log_softmax(dim=0)

    def written_slowly(self, prompt: Sequence[int], count: int) -> list[int]:
        """Return the most probable tokens after a prompt, one pass over everything for each."""
        tokens = [*prompt]
        for _ in range(count):
            log_probs = self.log_probabilities(tokens)
            log_probs[list(self.tokenizer.special.never_chosen)] = float("-inf")
            tokens.append(int(log_probs.argmax()))
            if tokens[-1] == self.tokenizer.special.eos:
                break
        return tokens[len(prompt) :]


def make_writer(kind: str = "gpt", context: int = 96, seed: int = 5) -> Writer:
    """Return a random model of two layers."""
    tokenizer = Tokenizer.learn(["the old man sees a dog", "a blue house and a tree", "größer als 日本"] * 5, 330)
    shape = {"vocabulary": tokenizer.vocabulary, "d_model": 32, "d_ff": 64, "heads": 4, "layers": 2}
    config = {**KINDS[kind], **shape, "max_positions": context, "dropout": 0.0, "init_std": 0.3}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = DecoderOnly(DecoderOnlyConfig.model_validate(config)).eval()
    return Writer(model, tokenizer, open_contexts(model, tokenizer.special))
