"""A comparison notices every difference but a tie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from sixfold.convert.compare import TOLERANCE, UNUSUAL, WRITTEN, Output, compare, sample
from sixfold.data.shards import Record, ShardWriter, token_type
from sixfold.decode.translate import Translator
from sixfold.errors import WorkError
from sixfold.tasks.translate.held_out import MOST
from sixfold.text import SpecialIds, Tokenizer

Make = Callable[..., Translator]
EOS = SpecialIds().eos
TEXTS = ("The old man sees a dog.", "I go home.")


@dataclass
class Same:
    """Another engine that is ours, and can be made to err."""

    translator: Translator
    outputs: dict[str, Output] = field(default_factory=dict)  # given instead of the true ones
    score_error: float = 0.0

    def translate(self, texts: Sequence[str], limits: Sequence[int]) -> list[Output]:
        found = [best for best, *_ in self.translator.search(texts, beam=1)]
        outputs = []
        for text, best, limit in zip(texts, found, limits, strict=True):
            ids = [token for token in best.tokens[:limit] if token != EOS]
            outputs.append(self.outputs.get(text, Output(ids, self.translator.tokenizer.decode(ids))))
        return outputs

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        scores = self.translator.score(sources, targets)
        return [each.log_probability + self.score_error * each.num_tokens for each in scores]


def test_equal_engines_agree_to_the_last_digit(make: Make) -> None:
    translator = make()
    comparison = compare(translator, Same(translator), TEXTS)
    assert (comparison.num_sentences, comparison.num_ties, comparison.largest_difference) == (2, 0, 0.0)


def test_another_translation_is_refused_and_its_sentence_named(make: Make) -> None:
    translator = make()
    ids = translator.tokenizer.encode("wrong")
    with pytest.raises(WorkError, match="source: I go home") as caught:
        compare(translator, Same(translator, {"I go home.": Output(ids, "wrong")}), TEXTS)
    assert caught.value.exit_code == 1


def test_the_right_tokens_with_another_text_are_refused(make: Make) -> None:
    translator = make()
    (right,) = Same(translator).translate(["I go home."], [5])
    with pytest.raises(WorkError, match="source: I go home"):
        compare(translator, Same(translator, {"I go home.": Output(right.ids, "wrong")}), TEXTS)


def test_a_translation_that_ends_too_early_is_refused(make: Make) -> None:
    torch.manual_seed(1)  # a model that writes long enough
    translator = make()
    ids = [token for token in translator.search(["I go home."], beam=1)[0][0].tokens if token != EOS]
    half = ids[: len(ids) // 2]
    output = Output(half, translator.tokenizer.decode(half))
    with pytest.raises(WorkError, match="translates differently"):
        compare(translator, Same(translator, {"I go home.": output}), TEXTS)


@pytest.mark.parametrize("error", [2 * TOLERANCE, -2 * TOLERANCE, float("nan")])
def test_another_score_is_refused(make: Make, error: float) -> None:
    translator = make()
    with pytest.raises(WorkError, match="scores a translation differently"):
        compare(translator, Same(translator, score_error=error), TEXTS)


def test_a_tie_is_no_difference(make: Make) -> None:
    """Two tokens with the same vector are equally probable everywhere: either may be chosen."""
    torch.manual_seed(1)  # a model whose first token is no end token
    translator = make()
    first = translator.search(["I go home."], beam=1)[0][0].tokens[0]
    twin = next(
        token for token in range(300, 400) if token not in (first, *translator.tokenizer.encode("I go home."))
    )
    with torch.no_grad():
        translator.model.head.weight[twin] = translator.model.head.weight[first]
    best = translator.search(["I go home."], beam=1)[0][0]
    swapped = {first: twin, twin: first}
    ids = [swapped.get(token, token) for token in best.tokens if token != EOS]
    output = Output(ids, translator.tokenizer.decode(ids))
    assert output.text != best.text
    assert compare(translator, Same(translator, {"I go home.": output}), TEXTS).num_ties == 1


def test_the_sample_holds_sentences_of_the_validation_while_they_are_there(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    assert len(sample(tmp_path, tokenizer)) == WRITTEN + len(UNUSUAL)
    columns = dict.fromkeys(("source", "target"), token_type(tokenizer.vocabulary))
    writer = ShardWriter(tmp_path / "training" / "data" / "valid", columns)
    rows = (tokenizer.encode(f"Sentence {i}") for i in range(100))
    writer.write(Record({"source": ids, "target": []}, i) for i, ids in enumerate(rows))
    writer.close()
    (tmp_path / "training" / "tokenizer.model").write_bytes(tokenizer.model)
    texts = sample(tmp_path, tokenizer)
    assert texts[:2] == ["Sentence 0", "Sentence 1"]
    assert len(texts) == MOST + WRITTEN + len(UNUSUAL)


def test_the_validation_of_another_tokenizer_is_left_alone(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "tokenizer.model").write_bytes(b"another")
    assert len(sample(tmp_path, tokenizer)) == WRITTEN + len(UNUSUAL)


def test_an_export_that_cannot_be_compared_at_all_is_refused(make: Make) -> None:
    translator = make()
    with pytest.raises(WorkError, match="No sentence"):
        compare(translator, Same(translator), ["a ▁ b"])


def test_what_other_tokenizers_read_differently_is_not_compared(make: Make) -> None:
    translator = make(positions="learned", max_positions=50)
    assert compare(translator, Same(translator), [*TEXTS, "a ▁ b", ">>de<< a", "word " * 50]).num_sentences == 2
