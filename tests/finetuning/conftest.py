"""A tokenizer that frames its texts, and examples that a tiny model can learn from."""

import pytest
from transformers import PreTrainedTokenizerBase

from electra.tokenization import SPECIAL_TOKENS, wrap_backend
from tests.conftest import make_number_tokenizer


@pytest.fixture(scope="session")
def framed_tokenizer() -> PreTrainedTokenizerBase:
    """Token 17 is written "17", ids 0-4 are special; texts are framed as BERT's are."""
    return wrap_backend(make_number_tokenizer(6000).backend_tokenizer, dict(SPECIAL_TOKENS))
