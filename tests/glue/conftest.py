"""A tokenizer that knows the words of the tiny GLUE."""

import pytest
from transformers import PreTrainedTokenizerBase

from electra.tokenizer_training import TokenizerOptions, train_tokenizer
from tests.pretraining.runs import WORDS


@pytest.fixture(scope="session")
def glue_tokenizer() -> PreTrainedTokenizerBase:
    return train_tokenizer([" ".join(WORDS)] * 4, TokenizerOptions(vocab_size=150))
