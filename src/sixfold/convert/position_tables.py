"""Tables of position vectors for other engines."""

from __future__ import annotations

from torch import Tensor

from sixfold.decode.translate import Translator


def position_tables(translator: Translator) -> tuple[Tensor, Tensor]:
    """Return the position vectors (positions, d_model) of both sides: all learned ones, or all that are used."""
    model, end_token = translator.model, 1
    is_learned = model.config.positions == "learned"
    longest = max(translator.decoder.longest_source + end_token, translator.decoder.longest_target)
    num_positions = model.config.max_positions if is_learned else longest
    return model.source.positions(0, num_positions).detach(), model.target.positions(0, num_positions).detach()
