"""The training history agrees with the metrics log, however long or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sixfold.errors import ModelFolderError
from sixfold.explain import read_training, render_training
from sixfold.explain.training_history import MAX_POINTS, MAX_VALIDATIONS


def step(number: int, loss: float = 2.0) -> dict[str, object]:
    return {"kind": "step", "step": number, "loss": loss, "grad_norm": 1.0, "learning_rate": 1e-3,
            "targets": 100, "epoch": number // 50, "pairs": 1, "seconds": number / 10}  # fmt: skip


def validation(number: int, bleu: float, is_best: bool) -> dict[str, object]:
    sample = {"given": "a", "answer": f"b {number}", "expected": "c"}
    score = {"loss": 1.0, "score_name": "BLEU", "score": bleu, "is_best": is_best}
    return {"kind": "validation", "step": number, **score, "weights": "single", "sample": sample}


def written(folder: Path, records: list[dict[str, object]], tail: str = "") -> Path:
    """Write a metrics log."""
    (folder / "training").mkdir()
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "training" / "log.jsonl").write_text(lines + tail, encoding="utf-8")
    return folder


def test_a_short_log_is_shown_step_by_step(tmp_path: Path) -> None:
    records = [step(1, 4.0), step(2, 3.0), validation(2, 12.345, True), step(3, 2.0)]
    found = read_training(written(tmp_path, records))
    assert [(point.step, point.loss) for point in found.points] == [(1, 4.0), (2, 3.0), (3, 2.0)]
    assert found.points[1].tokens_per_second == pytest.approx(1000)
    assert [(each.step, each.score, each.answer) for each in found.validations] == [(2, 12.35, "b 2")]
    assert [(each.score_name, each.given, each.expected) for each in found.validations] == [("BLEU", "a", "c")]
    assert (found.num_steps, found.epoch, found.seconds) == (3, 1, 0.3)


def test_the_training_of_a_model_that_continues_text_has_bits_per_byte(tmp_path: Path) -> None:
    score = {"score_name": "bits per byte", "score": 2.0964, "decimals": 3, "details": "perplexity 12.0"}
    [found] = read_training(written(tmp_path, [step(1), validation(1, 0, True) | score])).validations
    assert (found.score_name, found.score, found.decimals) == ("bits per byte", 2.096, 3)


def test_a_long_log_is_reduced_to_means_and_keeps_the_best_validation(tmp_path: Path) -> None:
    records = [step(number, float(number)) for number in range(1, 5001)]
    records += [validation(number, 1.0, number == 777) for number in range(1, 1000)]
    found = read_training(written(tmp_path, records))
    assert len(found.points) <= MAX_POINTS
    size = found.points[0].step
    assert found.points[0].loss == pytest.approx(sum(range(1, size + 1)) / size)
    assert found.points[-1].step == 5000
    assert len(found.validations) <= MAX_VALIDATIONS + 1
    assert [each.step for each in found.validations if each.is_best] == [777]
    assert found.validations[-1].step == 999


def test_damaged_lines_and_non_finite_numbers_are_skipped(tmp_path: Path) -> None:
    records = [step(1), step(2, float("nan")), {"kind": "skipped", "step": 3, "loss": "nan"}, step(4)]
    found = read_training(written(tmp_path, records, '{"kind": "step", "step": 5, "lo'))
    assert [point.step for point in found.points] == [1, 4]
    assert "NaN" not in render_training(found).split('id="data">')[1].split("</script>")[0]


def test_a_folder_without_a_metrics_log_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"log\.jsonl"):
        read_training(tmp_path)


def test_languages_come_from_the_run(tmp_path: Path) -> None:
    written(tmp_path, [step(1)])
    assert read_training(tmp_path).source_language == ""
    (tmp_path / "training" / "run.json").write_text('{"facts": {"languages": ["en", "de"]}}')
    assert read_training(tmp_path).target_language == "de"
