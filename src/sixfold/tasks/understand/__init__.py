"""Tasks for encoder-only models (BERT): classify, tag, answer and compare texts."""
