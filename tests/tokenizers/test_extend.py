"""Longer tokenizers: old ids stay, the new tokens are those that shorten the text most, in every algorithm."""

import json
import random
import re

from pytest import approx
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from electra.data.tokenize import REPORT_NAME
from electra.tokenizers.command import main
from electra.tokenizers.extend import extend_tokenizer
from electra.tokenizers.load import SPECIAL_TOKENS, plain_backend, tokenizer_fingerprint
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from tests.conftest import TEXTS, make_number_tokenizer, refused, refused_command
from tests.helpers import parametrize, read_json

ALGORITHMS = ("wordpiece", "byte_bpe", "unigram")
SIZES = {"wordpiece": 160, "byte_bpe": 300, "unigram": 100}
DOMAIN = ["the kubelet mounts volumes", "a kubelet and another kubelet mount the volume", "kubelet -v"] * 3


@parametrize("algorithm", ALGORITHMS)
def test_old_ids_stay_and_new_words_are_one_token(algorithm, tmp_path):
    options = TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=SIZES[algorithm])
    tokenizer = train_on_documents([*TEXTS * 3, "kmov qubelet"], options)
    before = tokenizer_fingerprint(tokenizer)
    count = 5 if algorithm == "wordpiece" else 12  # merges add the pieces of a word before the word
    longer = extend_tokenizer(tokenizer, DOMAIN, count, min_frequency=2)
    assert tokenizer_fingerprint(tokenizer) == before  # a copy
    old = tokenizer.get_vocab()
    new = longer.get_vocab()
    assert old.items() <= new.items()
    assert sorted(new.values()) == list(range(len(old) + count))
    pieces_before, pieces_after = (len(encode("Kubelet")["input_ids"]) - 2 for encode in (tokenizer, longer))
    assert pieces_before > 2 and pieces_after == 1
    assert len(longer("kubelets")["input_ids"]) < len(tokenizer("kubelets")["input_ids"])  # a continuation
    for text in TEXTS:
        ids_before, ids_after = (
            plain_backend(either).encode(text, add_special_tokens=False).ids for either in (tokenizer, longer)
        )
        assert len(ids_after) <= len(ids_before)
        assert ids_before == ids_after or max(ids_after) >= len(old)
    longer.save_pretrained(tmp_path)
    opened = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer_fingerprint(opened) == tokenizer_fingerprint(longer)
    assert opened.decode(opened("the kubelet")["input_ids"], skip_special_tokens=True).strip() == "the kubelet"


def test_wordpiece_ranks_words_by_the_pieces_they_save():
    text = "abc abc abc abcd abcd bbbbbb bbbbbb zz zz zz zz once"
    vocab = [*SPECIAL_TOKENS.values(), "a", "##b", "##bc", "##d", "b"]
    backend = Tokenizer(models.WordPiece({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL_TOKENS)
    longer = extend_tokenizer(tokenizer, [text], 10, min_frequency=2)
    # bbbbbb 2 x 5, zz unknown 4 x 2, abcd 2 x 2, abc 3 x 1; "once" occurs once
    assert longer.convert_ids_to_tokens(range(10, 14)) == ["bbbbbb", "zz", "abcd", "abc"]
    assert len(longer) == 14


def test_byte_bpe_goes_on_where_its_training_ended():
    """As if it had been trained on the same text with the larger vocabulary at once."""
    rng = random.Random(0)
    words = ["".join(rng.choices("aeioklmnst", k=rng.randint(3, 9))) for _ in range(400)]
    text = [" ".join(rng.choices(words, weights=[1 / (i + 1) for i in range(400)], k=20_000))]
    options = {"tokenizer_algorithm": "byte_bpe", "min_frequency": 2}
    short, whole = (train_on_documents(text, TokenizerArguments(vocab_size=size, **options)) for size in (300, 350))
    longer = extend_tokenizer(short, text, 50, min_frequency=2)
    merges = [json.loads(either.backend_tokenizer.to_str())["model"]["merges"] for either in (longer, whole)]
    equal = sum(first == second for first, second in zip(*merges, strict=True))
    assert equal > 0.8 * len(merges[1])  # equal counts are merged in another order
    assert len(longer(text)["input_ids"][0]) == approx(len(whole(text)["input_ids"][0]), rel=1e-3)


def test_ids_of_added_tokens_behind_a_unigram_model_stay():
    """As in DeBERTa-v3, whose [MASK] follows the pieces."""
    pieces = [("[PAD]", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), ("[UNK]", 0.0), ("▁", -2.0), ("▁a", -3.0), ("b", -4.0)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.add_special_tokens(["[MASK]"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL_TOKENS)
    longer = extend_tokenizer(tokenizer, ["ab ab ab b", "ab"], 1, min_frequency=2)
    assert longer.mask_token_id == 7 and longer.convert_ids_to_tokens(8) == "▁ab"
    assert longer("AB [MASK] b", add_special_tokens=False)["input_ids"] == [8, 4, 7, 4, 6]
    assert plain_backend(longer).encode("[MASK]").ids != [7]


def test_a_tokenizer_or_a_text_that_gives_no_new_token_is_refused():
    wordpiece = train_on_documents(TEXTS, TokenizerArguments(vocab_size=160))
    assert "WordLevel" in refused(lambda: extend_tokenizer(make_number_tokenizer(20), DOMAIN, 5, 2))
    assert "no new token" in refused(lambda: extend_tokenizer(wordpiece, ["the"], 5, 2))


def test_the_command_measures_before_and_after(tmp_path, capsys):
    train_on_documents(TEXTS, TokenizerArguments(vocab_size=160)).save_pretrained(tmp_path / "old")
    (tmp_path / "text.txt").write_text("\n\n".join(f"the kubelet {i} mounts a volume" for i in range(300)))
    command = ["--train_file", str(tmp_path / "text.txt"), "--output_dir", str(tmp_path / "new")]
    extend = [*command, "--extend", str(tmp_path / "old"), "--new_tokens", "3"]
    main(extend)
    report = read_json(tmp_path / "new" / REPORT_NAME)
    assert report["vocab_size"] == report["before"]["vocab_size"] + 3
    assert report["bytes_per_token"] > 1.5 * report["before"]["bytes_per_token"]
    assert "--output_dir" in refused_command(main, extend, capsys)


@parametrize(
    ("flags", "without_effect"),
    [
        (
            "--tokenizer_algorithm=byte_bpe --extend=a",
            {"tokenizer_algorithm", "vocab_size", "lowercase", "strip_accents"},
        ),
        ("--tokenizer_algorithm=byte_bpe", {"new_tokens"}),
        ("--tokenizer_algorithm=unigram", {"min_frequency", "new_tokens"}),
    ],
)
def test_options_without_effect_are_warned_of_before_the_work(tmp_path, capsys, flags, without_effect):
    """An extension keeps the algorithm and the normalization; its length is --new_tokens."""
    others = "--vocab_size=300 --no_lowercase --strip_accents --min_frequency=3 --new_tokens=5 --max_documents=9"
    (tmp_path / "taken").touch()
    refused(lambda: main([*flags.split(), *others.split(), "--train_file=a", f"--output_dir={tmp_path}"]))
    lines = capsys.readouterr().out.splitlines()
    warnings = [line.partition("(")[0] for line in lines if line.startswith("no effect")]
    assert {*re.findall(r"--(\w+)", " ".join(warnings))} == without_effect


@parametrize("algorithm", ALGORITHMS)
def test_rules_of_tables_and_long_words_are_not_added(algorithm):
    options = TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=SIZES[algorithm])
    tokenizer = train_on_documents([*TEXTS * 3, "+-=|_. kubelet mo"], options)
    table = ["+" + "-" * 20 + "=" * 60, "kubelet" * 12, "kubelet |_____| kubelet"] * 20
    longer = extend_tokenizer(tokenizer, table, 40, min_frequency=2)
    new = longer.get_vocab().keys() - tokenizer.get_vocab().keys()
    texts = [longer.convert_tokens_to_string([token]).strip() for token in new]
    assert "kubelet" in texts
    assert all(any(map(str.isalnum, text)) and len(text) <= 30 for text in texts)
