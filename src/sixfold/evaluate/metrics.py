"""Metrics of translations against references: sacreBLEU's scores, with signatures that make them comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sixfold.errors import DataError
from sixfold.text.scripts import CHINESE, JAPANESE, LANGUAGES_WITHOUT_SPACES


@dataclass(frozen=True)
class Metric:
    """A score, and the signature that says exactly how it was computed."""

    name: str
    value: float
    signature: str


def corpus_metrics(
    hypotheses: Sequence[str], references: Sequence[str], target_language: str = "", lowercase: bool = False
) -> tuple[Metric, ...]:
    """Return BLEU, chrF, TER and exact match, tokenized as suits the target language."""
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
    """Return BLEU (Papineni et al., 2002), from 0 to 100, with one of sacreBLEU's tokenizers."""
    from sacrebleu.metrics.bleu import BLEU

    refuse_unpaired(hypotheses, references)
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)  # force: do not warn about tokenized input
    score = metric.corpus_score(hypotheses, [references]).score
    return Metric("BLEU", score, str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Metric:
    """Return chrF2 (Popović, 2015), from 0 to 100: of character n-grams, so it needs no tokenizer."""
    from sacrebleu.metrics.chrf import CHRF

    refuse_unpaired(hypotheses, references)
    metric = CHRF(lowercase=lowercase)
    score = metric.corpus_score(hypotheses, [references]).score
    return Metric("chrF", score, str(metric.get_signature()))


def ter(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False, is_east_asian: bool = False
) -> Metric:
    """Return the edits per hundred reference words (Snover et al., 2006): 0 is best, and it can exceed 100.

    In Chinese and Japanese, ideographs count as words; in other languages, spaces separate words. sacreBLEU's
    default ignores case; here case counts unless `lowercase`, as in BLEU and chrF.
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
    """Return sacreBLEU's tokenizer for a language: `zh` for Chinese, `char` for other languages without spaces.

    sacreBLEU recommends MeCab for Japanese, which needs a dictionary; BLEU over characters is higher than over
    words, so compare it only with scores whose signature also says tok:char.
    """
    language = base_language(target_language)
    if language in CHINESE:
        return "zh"
    return "char" if language in LANGUAGES_WITHOUT_SPACES else "13a"


def base_language(tag: str) -> str:
    """Return the language of a tag such as zh-Hant or pt_BR."""
    return tag.replace("_", "-").partition("-")[0].lower()


def refuse_unpaired(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse to score lists that are empty or of different lengths."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses):,} translations for {len(references):,} references.",
            "Line n of one must translate line n of the other: find the missing or extra line.",
        )
    if not references:
        raise DataError("There is nothing to score: 0 translations and 0 references.", "Is the file empty?")
