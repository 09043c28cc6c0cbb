"""The phrasebook: English sentences and their German translations, made by our own grammar."""

from __future__ import annotations

from sixfold.data.corpora.phrasebook.author import Author, load, sentences

__all__ = ["Author", "load", "sentences"]
