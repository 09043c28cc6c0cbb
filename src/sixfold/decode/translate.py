"""The translator: from texts to translations with a model and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, overload

from sixfold.callbacks import OnProgress, no_progress
from sixfold.decode.alignment import align_ids
from sixfold.decode.batch_decoder import BatchDecoder, cut
from sixfold.decode.config import DecodeConfig, decode_config
from sixfold.decode.flags import Flag, find_flags
from sixfold.decode.matrices import Precision
from sixfold.decode.opening import read_folder, ready_device
from sixfold.decode.options import SearchOptions
from sixfold.decode.scoring import Score, Scorer, TokenScore
from sixfold.decode.search import Hypothesis, Search, length_penalty
from sixfold.decode.token_budget import of_one_length
from sixfold.decode.worker_protocol import Origin
from sixfold.decode.workers import Workers
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.models.folder import ModelInfo, load_tokenizer
from sixfold.text import Tokenizer
from sixfold.text.protect import protect
from sixfold.text.spelling import UNKNOWN
from sixfold.text.words import Link

ALIGNED_WIDTH = 8  # all attention maps of a pair take as much memory as this many hypotheses
FORCED = -1.5  # log-probability of a token on average, below which phrases were not written but forced
DEFAULTS = SearchOptions()
Texts = list[str] | tuple[str, ...]  # excludes a string, unlike Sequence[str]


@dataclass(frozen=True)
class Translation:
    """One translation of one text."""

    text: str
    score: float  # log-probability divided by the length penalty, which the search maximised
    log_probability: float
    num_tokens: int  # end token included
    is_cut: bool = False  # the output reached its length limit
    source_is_cut: bool = False  # the input was truncated to the model's limit
    tokens: tuple[int, ...] = field(default=(), repr=False, compare=False)  # end token included


class Translator:
    """A model and its tokenizer, ready to translate; of several models of one tokenizer, their average."""

    def __init__(
        self,
        models: Sequence[EncoderDecoder],
        tokenizer: Tokenizer,
        decode: DecodeConfig,
        info: ModelInfo | None = None,
        precision: Precision = "float32",
        workers: Workers | None = None,
    ):
        self.models = [model.eval() for model in models]
        self.model = self.models[0]  # the one to look into, where there are several
        self.tokenizer, self.decode, self.info = tokenizer, decode, info
        self.decoder = BatchDecoder(self.models, tokenizer, decode, precision, workers)
        self.scorer = Scorer(self.models, tokenizer.special)

    @overload
    def translate(self, texts: str, options: SearchOptions = DEFAULTS, beam: int | None = None) -> str: ...

    @overload
    def translate(self, texts: Texts, options: SearchOptions = DEFAULTS, beam: int | None = None) -> list[str]: ...

    def translate(
        self, texts: str | Texts, options: SearchOptions = DEFAULTS, beam: int | None = None
    ) -> str | list[str]:
        """Return the best translation of a text, or of each of several; `beam=4` is SearchOptions(beam=4)."""
        found = [best.text for best, *_ in self.search(as_texts(texts), options, beam)]
        return found[0] if isinstance(texts, str) else found

    def search(
        self,
        texts: Sequence[str],
        options: SearchOptions = DEFAULTS,
        beam: int | None = None,
        on_progress: OnProgress = no_progress,
        first_place: int = 0,
    ) -> list[list[Translation]]:
        """Return the n best translations of each text, best first, or n random draws. An empty text stays empty.

        Draws depend on a text's place in the input; `first_place` is that of the first of these texts.
        """
        options = options if beam is None else replace(options, beam=beam)
        refuse_one(texts)
        ids, is_cut = self.encode(texts)
        results: list[list[Translation]] = [[Translation("", 0.0, 0.0, 0)] for _ in texts]
        for i, hypotheses in self.decoder.decode(ids, options, on_progress, first_place):
            if not hypotheses:
                raise ConfigError(
                    f"No translation of {texts[i][:40]!r} contains everything required and nothing forbidden.",
                    "Forbid or require less, or allow a larger max-length.",
                )
            results[i] = [self.finish(hypothesis, is_cut[i]) for hypothesis in hypotheses]
        return results

    def search_protected(
        self,
        texts: Sequence[str],
        options: SearchOptions = DEFAULTS,
        on_progress: OnProgress = no_progress,
        first_place: int = 0,
    ) -> list[list[Translation]]:
        """Return the best translation of each text, with its addresses, placeholders and tags unchanged."""
        if options.n_best > 1:
            raise ConfigError("--protect gives only one translation of each text.", "Leave out --n-best.")
        latest: dict[str, Translation] = {}

        def translate(given: Sequence[str], required: Sequence[tuple[str, ...]]) -> list[str]:
            if not any(required):
                found = self.search(given, options, on_progress=on_progress, first_place=first_place)
                latest.update(zip(given, (each[0] for each in found), strict=True))
            else:
                for text, phrases in zip(given, required, strict=True):
                    if not latest[text].source_is_cut:  # or else spans are lost in any case
                        latest[text] = self.search_requiring(text, phrases, options) or latest[text]
            return [latest[text].text for text in given]

        return [[replace(latest[each.given], text=each.text)] for each in protect(texts, translate, self.align)]

    def search_requiring(self, text: str, phrases: tuple[str, ...], options: SearchOptions) -> Translation | None:
        """Return a translation that has these phrases as well, or None if no search gives a likely one."""
        try:
            found = self.search([text], replace(options, require=(*options.require, *phrases)))[0][0]
        except ConfigError:  # random draws, or a phrase that is too long
            return None
        return found if found.log_probability / max(1, found.num_tokens) > FORCED else None

    def stream(self, text: str, options: SearchOptions = DEFAULTS, place: int = 0) -> Iterator[str]:
        """Yield the translation of a text piece by piece, as it is written: greedily, unless draws are asked for.

        The pieces together are what `translate` returns with beam 1 or the same draws. A text that the model does
        not read whole (`reads_whole`) is cut, as there.
        """
        options = replace(options, beam=options.beam or 1)
        if not self.decoder.plan(options).can_stream:
            raise ConfigError(
                "Only a single translation, by greedy search or sampling, can be streamed.",
                "Leave out n-best, and use beam 1 or sample.",
            )
        [ids], _ = self.encode([text])
        shown = ""
        for sure in self.written(self.decoder.search([ids], options, [place])) if ids else ():
            if len(sure) > len(shown):
                yield sure[len(shown) :]
                shown = sure

    def written(self, search: Search) -> Iterator[str]:
        """Yield after every step of a greedy search what is sure of the text so far."""
        [beam] = search.beams
        while not search.is_done:
            search.step()
            if beam.finished:
                yield self.text(beam.finished[0].tokens)
            else:  # more bytes may complete a character
                yield self.text(beam.output(0)).rstrip(UNKNOWN)

    def reads_whole(self, text: str) -> bool:
        """Return whether a text is no longer than the model reads at once."""
        return len(self.tokenizer.encode(text)) <= self.decoder.longest_source

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
        """Return which words of each translation belong to which words of its source."""
        (source_ids, _), (target_ids, _) = self.encode(sources), self.encode_targets(targets)
        lengths = [max(len(s), len(t)) if s and t else 0 for s, t in zip(source_ids, target_ids, strict=True)]
        links: list[list[Link]] = [[] for _ in sources]
        for batch in of_one_length(lengths, ALIGNED_WIDTH):
            rows = ([source_ids[i] for i in batch], [target_ids[i] for i in batch])
            for i, found in zip(batch, align_ids(self.models, self.tokenizer, *rows), strict=True):
                links[i] = found
        return links

    @overload
    def score(self, sources: str, targets: str, on_progress: OnProgress = no_progress) -> Score: ...

    @overload
    def score(self, sources: Texts, targets: Texts, on_progress: OnProgress = no_progress) -> list[Score]: ...

    def score(
        self, sources: str | Texts, targets: str | Texts, on_progress: OnProgress = no_progress
    ) -> Score | list[Score]:
        """Return the log-probability of a given translation, or of each of several."""
        if isinstance(sources, str) != isinstance(targets, str):
            raise ConfigError(
                "score takes a text and its translation, or a list of texts and a list of translations."
            )
        found = self.score_pairs(as_texts(sources), as_texts(targets), on_progress)
        return found[0] if isinstance(sources, str) else found

    def score_pairs(
        self, sources: Sequence[str], targets: Sequence[str], on_progress: OnProgress = no_progress
    ) -> list[Score]:
        """Return the log-probability of each translation of as many sources."""
        if len(sources) != len(targets):
            raise ConfigError(f"There are {len(sources):,} sources but {len(targets):,} translations.")
        source_ids, source_is_cut = self.encode(sources)
        target_ids, target_is_cut = self.encode_targets(targets)
        scores = self.scorer.scores(source_ids, target_ids, on_progress)
        cuts = (any(each) for each in zip(source_is_cut, target_is_cut, strict=True))
        return [replace(score, is_cut=is_cut) for score, is_cut in zip(scores, cuts, strict=True)]

    def token_scores(
        self, texts: Sequence[str], found: Sequence[Sequence[Translation]], num_alternatives: int = 0
    ) -> list[list[TokenScore]]:
        """Return the scores of the tokens of all translations of these texts, one list for each translation."""
        ids, _ = self.encode(texts)
        sources = [ids[i] for i, translations in enumerate(found) for _ in translations]
        outputs = [each.tokens for translations in found for each in translations]
        return self.scorer.token_scores(sources, outputs, num_alternatives)

    def penalised(self, score: Score, alpha: float | None = None) -> float:
        """Return the score that a search with this length penalty would have given."""
        return score.log_probability / length_penalty(
            score.num_tokens, self.decode.length_penalty if alpha is None else alpha
        )

    def flags(self, source: str, translation: Translation) -> list[Flag]:
        """Return what is suspicious about a translation."""
        languages = self.info.languages if self.info else None
        return find_flags(
            source,
            translation.text,
            translation.log_probability / max(1, translation.num_tokens),
            translation.is_cut,
            translation.source_is_cut,
            is_other_language=not languages or not languages.source or languages.source != languages.target,
        )

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        """Return the tokens of sources, as many as the model reads at once, and which had more."""
        return cut(self.tokenizer.encode_batch(texts), self.decoder.longest_source)

    def encode_targets(self, texts: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        """Return the tokens of translations, as many as the model could write, and which had more."""
        return cut(self.tokenizer.encode_batch(texts), self.decoder.longest_target - 1)

    def finish(self, hypothesis: Hypothesis, source_is_cut: bool) -> Translation:
        """Turn tokens into text."""
        return Translation(
            self.text(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_probability,
            len(hypothesis.tokens),
            hypothesis.is_cut,
            source_is_cut,
            tokens=hypothesis.tokens,
        )

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of a translation's tokens."""
        # A model may write a line break only as a byte; one line in stays one line out.
        return self.tokenizer.decode(tokens).replace("\n", " ")

    def alone(self) -> Translator:
        """Return the first of the models without the others."""
        return Translator([self.model], self.tokenizer, self.decode, self.info, precision=self.decoder.precision)


def as_texts(texts: str | Texts) -> Texts:
    """Return a single text as a list of one."""
    return [texts] if isinstance(texts, str) else texts


def refuse_one(texts: Sequence[str]) -> None:
    """Refuse a string instead of a list, which would be read as a list of characters."""
    if isinstance(texts, str):
        raise ConfigError("Expected a list of texts, but got one text.", "Write it in brackets: [text]")


def load(
    folder: str | Path,
    device: str = "auto",
    partners: Sequence[str | Path] = (),
    precision: Precision = "float32",
    num_workers: int = 1,
) -> Translator:
    """Open a model folder for translating, together with others to average with.

    int8 is smaller and faster on a CPU, and nearly as good. With more workers, long inputs are shared among so
    many processes of one thread each.
    """
    chosen = ready_device(device, precision)
    models, tokenizer, info = read(Path(folder))
    for partner in partners:
        more, other_tokenizer, _ = read(Path(partner))
        if other_tokenizer.model != tokenizer.model:
            raise ConfigError(
                f"{partner} has another tokenizer than {folder}, so their probabilities cannot be averaged.",
                "Train it with the same tokenizer: sixfold train … --init MODEL",
            )
        models += more
    workers = share(folder, chosen, partners, precision, num_workers)
    own = [model.to(chosen) for model in models]
    return Translator(own, tokenizer, decode_config(info), info, precision, workers)


def share(
    folder: str | Path, device: str, partners: Sequence[str | Path], precision: Precision, num_workers: int
) -> Workers | None:
    """Return the processes that are to share the work on a CPU, if there are several."""
    if num_workers < 2 or device != "cpu":
        return None
    folders = [str(Path(each).absolute()) for each in (folder, *partners)]
    return Workers(Origin(folders[0], tuple(folders[1:]), device, precision), num_workers)


def read(folder: Path) -> tuple[list[EncoderDecoder], Tokenizer, ModelInfo]:
    """Read the models of a folder, their tokenizer and their description."""
    models, tokenizer, info = read_folder(folder, "translate", load_tokenizer)
    return cast("list[EncoderDecoder]", models), tokenizer, info
