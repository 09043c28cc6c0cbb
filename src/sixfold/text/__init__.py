"""Raw text to token ids and back."""

from sixfold.text.any_tokenizer import AnyTokenizer
from sixfold.text.special import SpecialIds
from sixfold.text.tokenizer import Subwords, Tokenizer

__all__ = ["AnyTokenizer", "SpecialIds", "Subwords", "Tokenizer"]
