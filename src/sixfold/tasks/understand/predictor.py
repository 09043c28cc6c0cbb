"""An encoder-only model of a folder, ready to answer: what classifiers, taggers and their kin share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Self, cast

import torch
from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.decode.matrices import Precision
from sixfold.decode.opening import read_folder, ready_device
from sixfold.errors import ModelFolderError
from sixfold.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from sixfold.models.folder import Labels, ModelInfo, load_any_tokenizer
from sixfold.text import AnyTokenizer
from sixfold.text.encoder_row import EncoderRow, RowFormat


class Predictor:
    """An encoder-only model and its tokenizer.

    A text's answer depends on the text alone: each row is computed on its own, so no company can change a bit.
    """

    task: ClassVar[str]

    def __init__(self, model: EncoderOnly, tokenizer: AnyTokenizer, info: ModelInfo) -> None:
        self.model, self.tokenizer, self.info = model.eval(), tokenizer, info
        own, shape = info.processors["text"], cast("EncoderOnlyConfig", info.model)
        longest = own.max_tokens or shape.max_positions
        self.rows = RowFormat(own.special, longest, own.separators, has_segments=shape.token_types > 1)

    @classmethod
    def load(cls, folder: Path, device: str = "auto", precision: Precision = "float32") -> Self:
        """Open a model folder."""
        [model, *others], tokenizer, info = read_folder(folder, cls.task, load_any_tokenizer)
        if others:
            raise ModelFolderError(f"{folder} holds an ensemble, which the task {cls.task!r} does not have.")
        assert isinstance(model, EncoderOnly)
        return cls(model.to(ready_device(device, precision)), tokenizer, info)

    @property
    def labels(self) -> Labels:
        """What the logits stand for."""
        assert self.info.labels is not None
        return self.info.labels

    @torch.inference_mode()
    def answers(self, rows: Sequence[EncoderRow], on_progress: OnProgress = no_progress) -> Iterator[Tensor]:
        """Yield what the head says to each row."""
        device = next(self.model.parameters()).device
        for done, row in enumerate(rows, start=1):
            tokens = torch.tensor([row.tokens], device=device)
            types = torch.tensor([row.types], device=device) if any(row.types) else None
            yield self.model(tokens, types)[0].float().cpu()
            on_progress(done)
