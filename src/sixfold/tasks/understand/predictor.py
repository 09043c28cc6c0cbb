"""An opened encoder-only model: shared by classifiers, taggers and others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Self

from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.decode.encoder import TextEncoder
from sixfold.decode.matrices import Precision
from sixfold.decode.opening import read_folder, ready_device
from sixfold.errors import ModelFolderError
from sixfold.models.encoder_only import EncoderOnly
from sixfold.models.folder import Labels, ModelInfo, load_any_tokenizer
from sixfold.text.encoder_row import EncoderRow

TEXTS_AT_ONCE = 256  # so that progress is seen and memory bounded


class Predictor:
    """An encoder-only model and its tokenizer; a text's answer depends on the text alone, to the bit."""

    task: ClassVar[str]

    def __init__(self, encoder: TextEncoder, info: ModelInfo) -> None:
        self.encoder, self.info = encoder, info
        self.tokenizer, self.rows = encoder.tokenizer, encoder.format

    @classmethod
    def load(cls, folder: Path, device: str = "auto", precision: Precision = "float32") -> Self:
        """Open a model folder."""
        chosen = ready_device(device, precision)
        [model, *others], tokenizer, info = read_folder(folder, cls.task, load_any_tokenizer)
        if others:
            raise ModelFolderError(f"{folder} holds an ensemble, which the task {cls.task!r} does not have.")
        assert isinstance(model, EncoderOnly)
        return cls(TextEncoder(model.to(chosen), tokenizer, info.processors["text"], precision), info)

    @property
    def labels(self) -> Labels:
        """What the logits stand for."""
        assert self.info.labels is not None
        return self.info.labels

    def answers(self, rows: Sequence[EncoderRow], on_progress: OnProgress = no_progress) -> Iterator[Tensor]:
        """Yield what the head says to each row."""
        for begin in range(0, len(rows), TEXTS_AT_ONCE):
            some = rows[begin : begin + TEXTS_AT_ONCE]
            yield from (answer.float().cpu() for answer in self.encoder.answers(some))
            on_progress(begin + len(some))
