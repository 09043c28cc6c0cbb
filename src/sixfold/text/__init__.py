"""Raw text to token ids and back."""

from sixfold.text.special import SpecialIds
from sixfold.text.tokenizer import Subwords, Tokenizer

__all__ = ["SpecialIds", "Subwords", "Tokenizer"]
