"""The models of `generate_speed.py`, the same weights in the form that each engine reads; made once and kept.

- `gpt2`: the size of GPT-2, 124 million random weights, and a tokenizer of as many tokens.
- `smollm2`: SmolLM2-135M-Instruct as published.
"""

from __future__ import annotations

import shutil
from itertools import islice, product
from pathlib import Path

from children import python
from report import run
from trained import kept

SEED, SPREAD = 1, 0.1  # of the random weights: spread wider than for training, so that texts do not repeat a token
END = "<|endoftext|>"


def prepared(model: str) -> Path:
    """Return the folder that holds a model in every form, made the first time."""
    folder = kept(f"generate-{model}")
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        print(f"making {folder}, once", flush=True)
        MAKERS[model](unfinished)
        unfinished.rename(folder)
    return folder


def make_gpt2(folder: Path) -> None:
    """Draw weights with Hugging Face, import them, and convert them for CTranslate2."""
    write_random_gpt2(folder / "huggingface")
    sixfold("import", folder / "huggingface", "-o", folder / "sixfold")
    write_ctranslate2(folder / "huggingface", folder / "ctranslate2")


def make_smollm2(folder: Path) -> None:
    """Import the published weights, and export them."""
    sixfold("import", "smollm2", "-o", folder / "sixfold")
    sixfold("export", folder / "sixfold", "--to", "huggingface", "-o", folder / "huggingface")
    for precision in ("float32", "q8_0"):
        file = folder / f"{precision}.gguf"
        sixfold("export", folder / "sixfold", "--to", "gguf", "--precision", precision, "-o", file)


MAKERS = {"gpt2": make_gpt2, "smollm2": make_smollm2}


def sixfold(*arguments: object) -> None:
    """Run a command of Sixfold."""
    run(python("-m", "sixfold", *arguments))


def write_random_gpt2(folder: Path) -> None:
    """Write random weights and a tokenizer as a Hugging Face folder."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(SEED)
    config = GPT2Config(initializer_range=SPREAD)
    GPT2LMHeadModel(config).save_pretrained(folder)
    write_byte_pairs(folder / "tokenizer.json", config.vocab_size)


def write_byte_pairs(path: Path, vocabulary: int) -> None:
    """Write a byte-level tokenizer with so many tokens: the bytes, pairs of them, and the end."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    single = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [*islice(product(single, single), vocabulary - len(single) - 1)]
    tokens = [*single, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    tokenizer.save(str(path))


def write_ctranslate2(source: Path, folder: Path) -> None:
    """Convert a Hugging Face folder; a token is called by its number."""
    import torch
    from ctranslate2.converters.transformers import GPT2Loader
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(source)
    with torch.no_grad():
        spec = GPT2Loader().get_model_spec(model)
    names = [str(token) for token in range(model.config.vocab_size)]
    spec.register_vocabulary(names)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = names[-1]
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))
