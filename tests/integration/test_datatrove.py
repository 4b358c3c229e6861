"""examples/tokenize_datatrove.py: its tokens are those of `electra cache`, and so are the networks trained on them."""

import json
import random

import pytest

from electra.data.command import main as cache
from electra.data.foreign import open_cache
from electra.data.token_cache import TokenCache
from electra.pretraining.run import main as pretrain
from electra.tokenizers.command import main as make_tokenizer
from electra.tokenizers.load import load_tokenizer
from tests.conftest import TEXTS
from tests.data.rows import all_ids
from tests.helpers import parametrize, run
from tests.pretraining.runs import assert_same_state, flags

pytestmark = pytest.mark.slow

DOCUMENTS = 2000
ODD_TEXTS = ("[MASK] [SEP]", "  a", "a  ", "a\n\n\nb ", "\u00a0a\u3000", "Über")
"""What tokenizers treat in a way of their own."""


@pytest.fixture
def text(tmp_path):
    """A folder of JSON lines and plain text."""
    source = random.Random(0)
    words = " ".join(TEXTS).split()
    texts = [" ".join(source.choices(words, k=source.randint(3, 40))) for _ in range(DOCUMENTS)]
    rows = [f"{text} {source.choice(ODD_TEXTS)}" if number % 3 else text for number, text in enumerate(texts[:1500])]
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    (folder / "b.txt").write_text("\n\n".join(texts[1500:]))
    return folder


@parametrize("algorithm", ["wordpiece", "byte_bpe"])
def test_tokens_and_weights_are_those_of_electra_cache(algorithm, text, tmp_path, capsys):
    tokenizer = tmp_path / "tokenizer"
    words = [f"--train_file={text}", f"--tokenizer_algorithm={algorithm}", "--vocab_size=400"]
    make_tokenizer([*words, f"--output_dir={tokenizer}"])
    capsys.readouterr()
    cache([f"--train_file={text}", f"--tokenizer_path={tokenizer}", f"--cache_dir={tmp_path / 'cache'}"])
    cache_of_command = TokenCache(capsys.readouterr().out.split()[-1])
    argv = [text, f"--tokenizer_path={tokenizer}", f"--output_dir={tmp_path / 'tokens'}", "--tasks=4", "--workers=2"]
    run("examples/tokenize_datatrove.py", argv, tmp_path)
    cache_of_example = open_cache(tmp_path / "tokens", load_tokenizer(tokenizer), str(tmp_path / "cache"))
    assert len(cache_of_example) == len(cache_of_command) == DOCUMENTS
    assert all_ids(cache_of_example) == all_ids(cache_of_command)
    assert cache_of_example.content_hashes.tolist() == cache_of_command.content_hashes.tolist()

    options = {"train_file": None, "vocab_size": None, "max_steps": 4}
    for name, folder in (("command", cache_of_command.path), ("example", tmp_path / "tokens")):
        pretrain(flags(tmp_path, **options, experiment_name=name, token_cache=folder))
    assert_same_state(tmp_path / "output/command/checkpoint-4", tmp_path / "output/example/checkpoint-4")
