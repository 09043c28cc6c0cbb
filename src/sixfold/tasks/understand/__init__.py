"""Understand: labelled text in, an encoder-only model that sorts, tags, answers or compares out (BERT)."""
