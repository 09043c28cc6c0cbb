"""`sixfold evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import AsJson, Device, Set
from sixfold.cli.label_scores import evaluate_labelled, labels_texts
from sixfold.cli.output import print_table, write_lines
from sixfold.cli.set_option import read_languages
from sixfold.cli.text_scores import continues_text, evaluate_files, refuse_for_texts
from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from sixfold.data.formats import Pair
    from sixfold.evaluate.paired_bootstrap import BootstrapComparison
    from sixfold.evaluate.system import Evaluation, System

SystemPath = Annotated[Path, typer.Argument(help="A model folder, or a file of translations.")]
TestSet = Annotated[
    list[str],
    typer.Argument(
        help="Source text and reference translations, line by line; for a model that continues text, texts."
    ),
]
Against = Annotated[Path | None, typer.Option(help="A second model folder or file of translations.")]
Beam = Annotated[int | None, typer.Option(help="Beam size; 1: greedy search.")]
Protect = Annotated[
    bool, typer.Option("--protect", help="Keep placeholders and tags unchanged, as `translate --protect` does.")
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case in BLEU, chrF and TER.")]


def evaluate(
    model: SystemPath,
    files: TestSet,
    against: Against = None,
    beam: Beam = None,
    protect: Protect = False,
    lowercase: Lowercase = False,
    as_json: AsJson = False,
    settings: Set = None,
    device: Device = "auto",
) -> None:
    """Score a model on a test set, with the signature of each metric.

    For translation: BLEU, chrF, TER, exact match and perplexity; --against tests with paired bootstrap resampling
    whether the model is better than another one. For a model that continues text: bits per byte and perplexity of
    texts, or of the answers in conversations. For a classifier: accuracy, F1, calibration and the confusion
    matrix; for a tagger: the F1 of entities, or the accuracy of words.

    Example: sixfold evaluate model test.en test.de --against older-model
    """
    if continues_text(model):
        refuse_for_texts({"--against": against, "--beam": beam, "--protect": protect, "--lowercase": lowercase})
        evaluate_files(model, files, as_json, settings, device)
        return
    if labels_texts(model):
        flags = {"--beam": beam, "--protect": protect, "--lowercase": lowercase, "--set": settings}
        evaluate_labelled(model, files, against, flags, as_json, device)
        return
    from sixfold.data.readers import open_pairs
    from sixfold.evaluate.system import evaluate_system

    pairs = list(open_pairs(*sides(files), languages=read_languages("evaluate", settings)))
    first = translations(model, pairs, beam, device, protect, "translating")
    references = [pair.target for pair in pairs]
    evaluation = evaluate_system(first, references, lowercase)
    comparison = None
    if against is not None:
        second = translations(against, pairs, beam, device, protect, f"translating with {against}")
        comparison = compared(second, first, references, lowercase)
    show(evaluation, comparison, as_json)


def sides(files: Sequence[str]) -> tuple[str, str | None]:
    """Return the source file and the reference file; a single file holds both."""
    if len(files) > 2:
        raise ConfigError(f"Expected source text and reference translations, but got {len(files)} files.")
    return files[0], files[1] if len(files) == 2 else None


def translations(
    system: Path, pairs: Sequence[Pair], beam: int | None, device: str, is_protected: bool, doing: str
) -> System:
    """Return the translations of a model folder, or those in a file."""
    from sixfold.cli.progress_bar import progress
    from sixfold.tasks.translate.outputs import translations_of

    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    with progress(doing, len(pairs)) as on_progress:
        return translations_of(system, sources, references, beam, device, on_progress, is_protected)


def compared(baseline: System, system: System, references: Sequence[str], lowercase: bool) -> BootstrapComparison:
    """Test whether a system is better than the baseline."""
    from sixfold.cli.progress_bar import progress
    from sixfold.evaluate.paired_bootstrap import compare

    with progress("comparing", unit="samples") as on_progress:
        return compare(baseline, system, references, lowercase, on_progress=on_progress)


def show(evaluation: Evaluation, comparison: BootstrapComparison | None, as_json: bool) -> None:
    """Print the metrics, and the answer of a comparison."""
    if as_json:
        content = {**asdict(evaluation), "comparison": asdict(comparison) if comparison else None}
        write_lines([json.dumps(content, ensure_ascii=False)])
        return
    print_evaluation(evaluation)
    if comparison is not None:
        typer.echo(comparison.sentence)


def print_evaluation(evaluation: Evaluation) -> None:
    """Print the metrics as a table."""
    rows = [(metric.name, f"{metric.value:.2f}", metric.signature) for metric in evaluation.metrics]
    print_table(f"{evaluation.name}, {evaluation.num_sentences:,} sentences", rows)
