"""A small WordPiece tokenizer as publishers of BERT lay it out, learned by the package from our own grammar."""

from __future__ import annotations

import json
from itertools import islice

import tokenizers

from sixfold.data.corpora.phrasebook import sentences

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_piece_tokenizer(lowercase: bool = True, size: int = 500) -> bytes:
    """Return a tokenizer.json with BERT's words."""
    engine = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    engine.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    engine.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL, continuing_subword_prefix="##", show_progress=False
    )
    engine.train_from_iterator([side for pair in islice(sentences(), 300) for side in pair], trainer)
    engine.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", SPECIAL.index("[CLS]")), ("[SEP]", SPECIAL.index("[SEP]"))],
    )
    engine.decoder = tokenizers.decoders.WordPiece()
    return json.dumps(json.loads(engine.to_str())).encode()
