"""The token ids that every tokenizer of ours reserves."""

PAD_ID = 0  # fills up a batch; never attended to
BOS_ID = 1  # the decoder's first input
EOS_ID = 2  # ends every source and every target
UNK_ID = 3  # demanded by SentencePiece; byte fallback leaves it unused
NUM_RESERVED = 4 + 256  # and one token for each byte
