"""Texts and pairs -> rows of tokens: one for each, or several windows of a long text."""

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.encoding import TOKENIZER_BATCH, Array, ColumnRows, Examples, encode_examples, lengths_of, tokenize
from electra.io.errors import UserError
from electra.tasks.classify.data import Example


def encode_texts(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    in_windows: bool,
) -> tuple[ColumnRows, Array]:
    """Return rows of at most `max_length` tokens, and the number of each row's example, int64 (R,), ascending.

    Without windows, tokens beyond that are left out, of a pair those of the longer text. Windows overlap by a quarter.
    """
    first = [example.text for example in examples]
    second = [example.pair for example in examples if example.pair is not None]
    if not in_windows:
        rows = encode_examples(Examples(first, second or None), tokenizer, max_length)
        return rows, np.arange(len(examples))
    if second:
        raise UserError("--long_texts windows reads one text, not pairs; leave out one of the two")
    columns = tokenize(
        tokenizer,
        first,
        truncation=True,
        max_length=max_length,
        stride=max_length // 4,
        return_overflowing_tokens=True,
        return_token_type_ids=True,
    )
    owners = np.array(columns.pop("overflow_to_sample_mapping"), np.int64)
    batches = np.cumsum(np.diff(owners, prepend=0) < 0)  # texts are numbered anew in each batch of the tokenizer
    return ColumnRows(columns, lengths_of(columns["input_ids"])), owners + TOKENIZER_BATCH * batches
