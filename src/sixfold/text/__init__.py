"""Raw text to token ids and back."""

from sixfold.text.special import SpecialIds
from sixfold.text.tokenizer import Subwords, Tokenizer
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

__all__ = ["BOS_ID", "EOS_ID", "PAD_ID", "UNK_ID", "SpecialIds", "Subwords", "Tokenizer"]
