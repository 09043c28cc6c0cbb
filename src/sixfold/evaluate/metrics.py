"""How close translations are to references: sacreBLEU's numbers with the signatures that make them comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sixfold.errors import DataError
from sixfold.text.scripts import CHINESE, JAPANESE, LANGUAGES_WITHOUT_SPACES


@dataclass(frozen=True)
class Metric:
    """One number, and the signature that says exactly how it was computed."""

    name: str
    value: float
    signature: str


def corpus_metrics(
    hypotheses: Sequence[str], references: Sequence[str], target_language: str = "", lowercase: bool = False
) -> tuple[Metric, ...]:
    """Return BLEU, chrF, TER and exact match, with words split as suits the target language."""
    is_east_asian = base_language(target_language) in CHINESE | JAPANESE
    return (
        bleu(hypotheses, references, lowercase, bleu_tokenizer(target_language)),
        chrf(hypotheses, references, lowercase),
        ter(hypotheses, references, lowercase, is_east_asian),
        exact_match(hypotheses, references, lowercase),
    )


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False, tokenize: str = "13a"
) -> Metric:
    """Return BLEU (Papineni et al., 2002), from 0 to 100, with words split by one of sacreBLEU's tokenizers."""
    from sacrebleu.metrics.bleu import BLEU

    refuse_unpaired(hypotheses, references)
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)  # force: no advice about other pipelines
    score = metric.corpus_score(hypotheses, [references]).score
    return Metric("BLEU", score, str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Metric:
    """Return chrF2 (Popović, 2015), from 0 to 100: character n-grams, so no word splitting matters."""
    from sacrebleu.metrics.chrf import CHRF

    refuse_unpaired(hypotheses, references)
    metric = CHRF(lowercase=lowercase)
    score = metric.corpus_score(hypotheses, [references]).score
    return Metric("chrF", score, str(metric.get_signature()))


def ter(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False, is_east_asian: bool = False
) -> Metric:
    """Return the edits a hundred reference words need (Snover et al., 2006): 0 is best, and over 100 is possible.

    For Chinese and Japanese, ideographs count as words; in other scripts, words are what spaces separate.
    sacreBLEU's own default ignores case; here case counts unless `lowercase`, as it does in BLEU and chrF.
    """
    from sacrebleu.metrics.ter import TER

    refuse_unpaired(hypotheses, references)
    metric = TER(case_sensitive=not lowercase, normalized=is_east_asian, asian_support=is_east_asian)
    score = metric.corpus_score(hypotheses, [references]).score
    return Metric("TER", score, str(metric.get_signature()))


def exact_match(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Metric:
    """Return the percentage of hypotheses that equal their reference, character for character."""
    refuse_unpaired(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    matches = sum(ours.lower() == theirs.lower() if lowercase else ours == theirs for ours, theirs in pairs)
    case = "lc" if lowercase else "mixed"
    return Metric("exact match", 100 * matches / len(references), f"nrefs:1|case:{case}|unit:percent")


def bleu_tokenizer(target_language: str) -> str:
    """Return sacreBLEU's tokenizer for a language: its own for Chinese, characters where no spaces are written.

    sacreBLEU would rather split Japanese with MeCab, which needs a dictionary; BLEU over characters is higher
    than over words, so compare it only with numbers whose signature also says tok:char.
    """
    language = base_language(target_language)
    if language in CHINESE:
        return "zh"
    return "char" if language in LANGUAGES_WITHOUT_SPACES else "13a"


def base_language(tag: str) -> str:
    """Return the language of a tag such as zh-Hant or pt_BR."""
    return tag.replace("_", "-").partition("-")[0].lower()


def refuse_unpaired(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse to score lists that are empty or not line for line."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses):,} translations for {len(references):,} references.",
            "Line n of one must belong to line n of the other: check where they slip out of step.",
        )
    if not references:
        raise DataError("There is nothing to score: 0 translations and 0 references.", "Is the file empty?")
