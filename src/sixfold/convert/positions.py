"""Positions as other engines want them: tables."""

from __future__ import annotations

from torch import Tensor

from sixfold.decode.translate import Translator


def position_tables(translator: Translator) -> tuple[Tensor, Tensor]:
    """Return the encodings (positions, d_model) of both sides: all that were learned, or all that we would use."""
    model, end_mark = translator.model, 1
    is_learned = model.config.positions == "learned"
    longest = max(translator.decoder.longest_source + end_mark, translator.decoder.longest_target)
    num_positions = model.config.max_positions if is_learned else longest
    return model.source.positions(0, num_positions).detach(), model.target.positions(0, num_positions).detach()
