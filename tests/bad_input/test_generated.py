"""Generated configurations and corpora: a command works, or ends with one line; never with anything else."""

import json
import string
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus, CorpusOptions
from electra.data.documents import load_or_build_cache
from electra.errors import UserError
from electra.glue.options import parse_arguments as parse_glue
from electra.pretraining.options import GROUPS, parse_arguments
from electra.tokenizer_training import TokenizerOptions, train_tokenizer

few = settings(derandomize=True, deadline=None, max_examples=60, database=None)

OPTIONS = sorted({name for group in GROUPS for name, field in group.__dataclass_fields__.items() if field.init})
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.dates()
    | st.text(max_size=12)
    | st.sampled_from(["", "none", "true", "1e-3", "0x10", "~", "--seed", "None", "[]", "{}", "a b", "\0", "é\n"])
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
PIECES = st.sampled_from(
    [b"\r\n", b"\n\n", b"\r", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", "\u2028 \x85 \u200b\ufffe".encode(),
     b"\x1a", b"[MASK] [PAD]", b"x" * 70_000, b"word " * 300, "漢字 ä́ 👩‍👩‍👧".encode(), b" \t ", b'{"text": 1}', b'"']
)  # fmt: skip
CORPUS = st.binary(max_size=40) | st.lists(PIECES | st.binary(max_size=6), max_size=8).map(b"".join)


def take_or_refuse(parse: Any, text: str | bytes) -> None:
    """Parse a configuration file of this content; anything but a `UserError` comes through."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
        try:
            parse(
                ["--train_file=corpus.txt", f"--config={path}"] if parse is parse_arguments else [f"--config={path}"]
            )
        except UserError as error:
            assert str(error).strip()


@few
@given(name=st.sampled_from(OPTIONS), value=VALUES)
@example(name="max_steps", value=10**400)
@example(name="learning_rate", value="1" * 5000)
@example(name="report_to", value={"a": [None]})
@example(name="train_file", value="\0")
def test_any_value_of_any_option_is_taken_or_refused_in_a_line(name: str, value: Any) -> None:
    take_or_refuse(parse_arguments, yaml.safe_dump({name: value}, allow_unicode=True))


@few
@given(text=st.text(alphabet=string.printable, max_size=40) | st.binary(max_size=40))
@example(text="a: &a [*a]\n")
@example(text="&a {seed: *a}\n")
@example(text="[" * 5000)
@example(text="seed: 1:60\n? [1]\n: 2\n")
def test_any_text_as_a_configuration_is_taken_or_refused_in_a_line(text: str | bytes) -> None:
    take_or_refuse(parse_arguments, text)


@few
@given(name=st.sampled_from(["tasks", "task_overrides", "num_seeds", "head", "max_length", "glue_dir"]), value=VALUES)
@example(name="task_overrides", value={"rte": {"max_length": {"a": 1}}})
@example(name="task_overrides", value={"rte": {"learning_rate": [1, 2]}})
def test_any_value_of_an_evaluation_is_taken_or_refused_in_a_line(name: str, value: Any) -> None:
    take_or_refuse(parse_glue, yaml.safe_dump({"pretrain_path": "encoder", name: value}, allow_unicode=True))


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "txt.gz", "parquet"])
@few
@given(content=CORPUS)
@example(content=b"")
@example(content=b"\xef\xbb\xbf")
@example(content=b"a\r\n\r\nb\r\n")
@example(content=b"\0" * 2000)
def test_any_bytes_as_a_corpus_are_read_or_refused_in_a_line(
    kind: str, content: bytes, wordpiece_tokenizer: PreTrainedTokenizerBase
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"corpus.{kind}"
        path.write_bytes(content)
        try:
            corpus = Corpus(CorpusOptions(train_file=(str(path),)))
            documents = list(corpus)
            assert all(document.strip() for document in documents)
            cache = load_or_build_cache(corpus, wordpiece_tokenizer, folder)
            assert 0 < len(cache) <= len(documents) and cache.lengths.sum() == cache.num_tokens
        except UserError as error:
            assert str(error).strip()
        assert not list(Path(folder).glob("*.unfinished"))


@settings(few, max_examples=25)
@given(
    documents=st.lists(st.text(max_size=30) | PIECES.map(lambda piece: piece.decode(errors="replace")), max_size=6),
    algorithm=st.sampled_from(["wordpiece", "byte_bpe", "unigram"]),
    size=st.integers(6, 400),
)
def test_any_documents_give_a_tokenizer_that_reads_them_or_are_refused(
    documents: list[str], algorithm: str, size: int
) -> None:
    texts = [json.loads(json.dumps(document)) for document in documents]
    try:
        tokenizer = train_tokenizer(texts, TokenizerOptions(tokenizer_algorithm=algorithm, vocab_size=size))  # type: ignore[arg-type]
    except UserError as error:
        assert str(error).strip()
        return
    assert len(tokenizer) <= size
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        assert ids[0] == tokenizer.cls_token_id and ids[-1] == tokenizer.sep_token_id
        assert max(ids) < len(tokenizer)
