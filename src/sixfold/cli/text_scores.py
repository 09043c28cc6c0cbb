"""`score` and `evaluate` for texts and a decoder-only model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sixfold.cli.output import print_table, reader_may_leave, write_lines
from sixfold.cli.set_option import read_settings
from sixfold.cli.token_records import token_records
from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from sixfold.decode.generate import Generator
    from sixfold.decode.text_scoring import TextScore

TEXTS_AT_ONCE = 500


def continues_text(model: Path) -> bool:
    """Return whether a path is the model folder of a model that continues text."""
    from sixfold.models.folder import load_info

    return model.is_dir() and load_info(model).task == "generate"


def refuse_for_texts(flags: Mapping[str, object]) -> None:
    """Refuse options that only apply to translation."""
    if given := [flag for flag, value in flags.items() if value]:
        raise ConfigError(f"{given[0]} is for models that translate; this one continues text.", "Leave it out.")


def score_lines(model: Path, file: str, as_json: bool, device: str) -> None:
    """Print the score of each line of a file as a separate text."""
    from sixfold.cli.progress_bar import progress
    from sixfold.data.readers import read_lines
    from sixfold.decode.generate import load

    generator, lines, done = load(model, device), read_lines(file), 0
    with reader_may_leave(), progress("scoring") as on_progress:
        while chunk := [*islice(lines, TEXTS_AT_ONCE)]:
            scores = generator.score(chunk)
            write_lines(
                as_rows(generator, scores) if as_json else (f"{each.log_probability:.4f}" for each in scores)
            )
            on_progress(done := done + len(chunk))


def evaluate_files(
    model: Path, files: Sequence[str], as_json: bool, settings: Sequence[str] | None, device: str
) -> None:
    """Print the scores of a model on texts, or on the answers in conversations."""
    from sixfold.cli.progress_bar import progress
    from sixfold.decode.generate import load
    from sixfold.tasks.generate import Generate
    from sixfold.tasks.generate.evaluate import evaluate_texts

    overrides = read_settings("evaluate", settings)
    refuse_for_texts({"--set data.languages": overrides.get("data", {}).get("languages")})
    examples = Generate().read([*map(Path, files)], overrides)
    with progress("evaluating", unit="documents") as on_progress:
        found = evaluate_texts(load(model, device), str(model), examples, on_progress)
    if as_json:
        write_lines([json.dumps(asdict(found), ensure_ascii=False)])
        return
    documents = "1 document" if found.num_documents == 1 else f"{found.num_documents:,} documents"
    counts = f"{documents}, {found.num_tokens:,} tokens, {found.num_bytes:,} bytes"
    windows = f"texts longer than {found.context:,} tokens in windows that overlap by half"
    rows = [
        ("bits per byte", f"{found.bits_per_byte:.3f}", windows),
        ("perplexity", f"{found.perplexity or math.inf:,.2f}", "per token, end tokens included"),
    ]
    print_table(f"{found.name}, {counts}", rows)


def as_rows(generator: Generator, scores: Sequence[TextScore]) -> Iterator[str]:
    """Yield one JSON object a line."""
    for each in scores:
        numbers = {
            "log_probability": each.log_probability,
            "num_tokens": each.num_tokens,
            "num_bytes": each.num_bytes,
            "bits_per_byte": each.bits_per_byte if each.num_bytes else None,
            "perplexity": each.perplexity if each.perplexity < math.inf else None,
        }
        tokens = token_records(generator.tokenizer, each.token_scores)
        yield json.dumps({**numbers, "tokens": tokens}, ensure_ascii=False)
