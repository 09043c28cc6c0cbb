"""One engine of `generate_speed.py`, as a process: each line that it reads is a job to do and time.

    python benchmarks/generate_engines.py sixfold-int8 FOLDER

FOLDER is what `generate_models.py` has made. A job is JSON, `{"prompts": [[5, 7], [9, 2]], "new_tokens": 128}`:
prompts of one length, each to be continued by so many tokens, always the most probable one that does not end the
text. The answer has the tokens and the seconds that it took. The job of `roofline` is empty: it measures how many
bytes of memory are read in a second.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sixfold.kernels import prepare  # isort: skip

prepare()  # before torch is loaded
import torch

from sixfold.machine import num_cores

Prompts = Sequence[Sequence[int]]
Generate = Callable[[Prompts, int], list[list[int]]]  # prompts and the number of new tokens; the tokens of each
LONGEST = 640  # tokens of a context
READ_BYTES = 2**30


def sixfold_engine(folder: Path, precision: str) -> Generate:
    """Ours, as `sixfold.load` opens it."""
    import sixfold

    generator = sixfold.load(folder / "sixfold", "cpu", precision=precision)
    ends = [token for token, spelling in enumerate(generator.tokenizer.spelling()) if not spelling]

    def generate(prompts: Prompts, new_tokens: int) -> list[list[int]]:
        generation = generator.new_generation()
        generation.never_chosen = ends
        options = sixfold.GenerateOptions(max_tokens=new_tokens, temperature=0.0)
        added = [generation.add(prompt, options, (place,)) for place, prompt in enumerate(prompts)]
        while not generation.is_idle:
            generator.step(generation)
        return [continuation.tokens for [continuation] in added]

    return generate


def ctranslate2_engine(folder: Path, compute_type: str) -> Generate:
    """OpenNMT's engine in C++, with whichever division of the cores is faster for so many prompts."""
    import ctranslate2

    cores, path = num_cores(), str(folder / "ctranslate2")
    engines = {  # by the number of batches that they run at the same time
        batches: ctranslate2.Generator(
            path, compute_type=compute_type, inter_threads=batches, intra_threads=cores // batches
        )
        for batches in {1, cores}
    }
    fastest: dict[int, int] = {}  # which of them, for a number of prompts

    def generate_in(batches: int, prompts: Prompts, new_tokens: int) -> list[list[int]]:
        results = engines[batches].generate_batch(
            [[*map(str, prompt)] for prompt in prompts],
            max_batch_size=-(-len(prompts) // batches),
            max_length=new_tokens,
            min_length=new_tokens,
            include_prompt_in_result=False,
        )
        return [result.sequences_ids[0] for result in results]

    def generate(prompts: Prompts, new_tokens: int) -> list[list[int]]:
        if len(prompts) not in fastest:
            fastest[len(prompts)] = min(engines, key=lambda each: seconds(lambda: generate_in(each, prompts, 16)))
        return generate_in(fastest[len(prompts)], prompts, new_tokens)

    return generate


def huggingface_engine(folder: Path) -> Generate:
    """`generate` of transformers, with its cache of keys and values."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "huggingface", dtype=torch.float32).eval()
    end = model.generation_config.eos_token_id

    @torch.inference_mode()
    def generate(prompts: Prompts, new_tokens: int) -> list[list[int]]:
        tokens = torch.tensor(prompts)
        rows = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            pad_token_id=end[0] if isinstance(end, list) else end,
        )
        return rows[:, tokens.size(1) :].tolist()

    return generate


def llama_cpp_engine(folder: Path, precision: str) -> Generate:
    """llama.cpp; its own sampler takes the most probable token, ends aside."""
    import llama_cpp
    from llama_cpp._internals import LlamaSampler

    cores = num_cores()
    engine = llama_cpp.Llama(
        str(folder / f"{precision}.gguf"),
        n_ctx=LONGEST,
        n_batch=LONGEST,
        n_ubatch=LONGEST,
        n_threads=cores,
        n_threads_batch=cores,
        verbose=False,
        **({"type_k": 0, "type_v": 0} if precision == "float32" else {}),  # keys and values as precise as weights
    )
    sampler = LlamaSampler()
    ends = filter(partial(llama_cpp.llama_vocab_is_eog, engine._model.vocab), range(engine.n_vocab()))
    sampler.add_logit_bias(engine.n_vocab(), dict.fromkeys(ends, -math.inf))
    sampler.add_greedy()

    def generate(prompts: Prompts, new_tokens: int) -> list[list[int]]:
        [prompt] = prompts
        engine.reset()
        engine.eval(prompt)
        tokens = [sampler.sample(engine._ctx)]
        while len(tokens) < new_tokens:
            engine.eval(tokens[-1:])
            tokens.append(sampler.sample(engine._ctx))
        return [tokens]

    return generate


ENGINES: dict[str, Callable[[Path], Generate]] = {
    "sixfold": lambda folder: sixfold_engine(folder, "float32"),
    "sixfold-int8": lambda folder: sixfold_engine(folder, "int8"),
    "ctranslate2": lambda folder: ctranslate2_engine(folder, "float32"),
    "ctranslate2-int8": lambda folder: ctranslate2_engine(folder, "int8"),
    "huggingface": huggingface_engine,
    "llama.cpp": lambda folder: llama_cpp_engine(folder, "float32"),
    "llama.cpp-q8_0": lambda folder: llama_cpp_engine(folder, "q8_0"),
}


def read_memory(data: torch.Tensor, _: object) -> dict[str, float]:
    """Return how many bytes of memory all cores read in a second."""
    return {"bandwidth": data.nbytes / min(seconds(data.sum) for _ in range(5))}


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run_job(generate: Generate, job: dict[str, Any]) -> dict[str, object]:
    """Generate, and say how long it took."""
    began = time.perf_counter()
    tokens = generate(job["prompts"], job["new_tokens"])
    return {"seconds": time.perf_counter() - began, "tokens": tokens}


def main(engine: str, folder: str) -> None:
    """Answer every job until the lines end."""
    torch.set_num_threads(num_cores())
    if engine == "roofline":
        answer = partial(read_memory, torch.ones(READ_BYTES // 4))
    else:
        answer = partial(run_job, ENGINES[engine](Path(folder)))
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
