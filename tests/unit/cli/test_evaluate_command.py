"""`sixfold evaluate`: metrics with signatures, and a plain answer to "is it better?"."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest


class SmallModel(Protocol):
    """A trained model and its test set (see tests/conftest.py)."""

    folder: Path
    source: Path
    target: Path


Command = Callable[..., tuple[int, str, str]]
METRICS = ["BLEU", "chrF", "TER", "exact match", "perplexity"]


@pytest.fixture
def worse(small_model: SmallModel, tmp_path: Path) -> Path:
    """Translations that are all wrong."""
    path = tmp_path / "worse.de"
    path.write_text("".join("zehn " + line.replace("n", "m") for line in small_model.target.open()))
    return path


def test_the_table_has_every_metric_with_its_signature(command: Command, small_model: SmallModel) -> None:
    code, out, _ = command("evaluate", small_model.folder, small_model.source, small_model.target)
    assert code == 0
    assert "20 sentences" in out
    for name in METRICS:
        assert name in out
    for signature in ("tok:13a", "nc:6", "nrefs:1", "per subword token", "version:"):
        assert signature in out


def test_json_is_one_object_with_the_same_metrics(command: Command, small_model: SmallModel) -> None:
    _, out, _ = command("evaluate", small_model.folder, small_model.source, small_model.target, "--json")
    found = json.loads(out)
    assert [metric["name"] for metric in found["metrics"]] == METRICS
    assert all(metric["signature"] for metric in found["metrics"])
    assert found["num_sentences"] == 20
    assert found["comparison"] is None
    values = {metric["name"]: metric["value"] for metric in found["metrics"]}
    assert values["exact match"] >= 90
    assert 1 < values["perplexity"] < 2


def test_a_file_of_translations_is_scored_too(command: Command, small_model: SmallModel) -> None:
    _, out, _ = command("evaluate", small_model.target, small_model.source, small_model.target, "--json")
    values = {metric["name"]: metric["value"] for metric in json.loads(out)["metrics"]}
    assert values["BLEU"] == pytest.approx(100)
    assert values["exact match"] == 100
    assert "perplexity" not in values


def test_spans_are_protected_as_translate_protects_them(
    command: Command, small_model: SmallModel, tmp_path: Path
) -> None:
    source = tmp_path / "spans.en"
    source.write_text("one {first_name} two\nthree https://example.org/a four\n")
    _, out, _ = command("translate", small_model.folder, "--protect", source)
    (tmp_path / "spans.de").write_text(out)

    def exact(*options: str) -> float:
        _, found, _ = command("evaluate", small_model.folder, source, tmp_path / "spans.de", "--json", *options)
        return next(each["value"] for each in json.loads(found)["metrics"] if each["name"] == "exact match")

    assert "{first_name}" in out
    assert exact("--protect") == 100
    assert exact() < 100


def test_the_perplexity_is_that_of_score(command: Command, small_model: SmallModel) -> None:
    _, out, _ = command("score", small_model.folder, small_model.source, small_model.target, "--json")
    scores = [json.loads(line) for line in out.splitlines()]
    mean = sum(each["log_probability"] for each in scores) / sum(each["num_tokens"] for each in scores)
    _, out, _ = command("evaluate", small_model.folder, small_model.source, small_model.target, "--json")
    assert json.loads(out)["metrics"][-1]["value"] == pytest.approx(2.718281828459045**-mean, rel=1e-5)


def test_against_a_worse_one_it_says_that_it_is_better(
    command: Command, small_model: SmallModel, worse: Path
) -> None:
    arguments = (small_model.folder, small_model.source, small_model.target, "--against", worse)
    code, out, _ = command("evaluate", *arguments)
    assert code == 0
    assert f"{small_model.folder} is better than {worse}" in out
    assert "p < 0.05" in out
    comparison = json.loads(command("evaluate", *arguments, "--json")[1])["comparison"]
    assert comparison["sentence"] in out
    assert comparison["differences"][0]["difference"] > 50


def test_against_itself_nothing_is_better(command: Command, small_model: SmallModel) -> None:
    folder = small_model.folder
    _, out, _ = command("evaluate", folder, small_model.source, small_model.target, "--against", folder)
    assert "give the same translation for every sentence" in out


def test_what_does_not_fit_together_is_refused(
    command: Command, small_model: SmallModel, worse: Path, tmp_path: Path
) -> None:
    (tmp_path / "short").write_text("eins\n")
    for arguments, message in (
        ((tmp_path / "short", small_model.source, small_model.target), "has 1 lines"),
        ((worse, small_model.source, tmp_path / "short"), "same number of lines"),
        (
            (worse, small_model.source, small_model.target, "--against", "nowhere"),
            "There is no model folder nowhere",
        ),
    ):
        code, out, messages = command("evaluate", *arguments)
        assert (code, out) == (2, "")
        assert messages.startswith("error: ")
        assert message in messages
