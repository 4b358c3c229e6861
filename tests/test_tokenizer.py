"""Tokenizers are trained on a few dozen sentences in five languages, saved, loaded and looked at token by token."""

import json
import pickle
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import (
    AddedToken,
    BertWordPieceTokenizer,
    ByteLevelBPETokenizer,
    Tokenizer,
    models,
    pre_tokenizers,
    processors,
)
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from electra.config import TokenizerArguments
from electra.errors import UserError
from electra.tokenizer import (
    SPECIAL_TOKENS,
    check_tokenizer,
    load_tokenizer,
    plain_backend,
    tokenizer_fingerprint,
    vocabulary_gaps,
    vocabulary_size,
)
from electra.tokenizer_training import (
    ALGORITHMS,
    _break_long_words,
    _choose_alphabet,
    _sample_documents,
    train_tokenizer,
)
from tests.conftest import refused

ENGLISH = [
    "The quick brown fox jumps over the lazy dog and the dog does not mind.",
    "A generator fills the masked words, a discriminator says which words are real.",
    "She sells sea shells by the sea shore; the shells she sells are real shells.",
    "How much wood would a woodchuck chuck if a woodchuck could chuck wood?",
    "Words that are replaced by the generator are told from the words that are real.",
]
GERMAN = [
    "Äpfel und Öl haben eine Größe, über die man sich übermäßig ärgern kann.",
    "Die Größe der Äpfel ärgert über alle Maßen die Übersetzer.",
    "Über Äpfel und ihre Größe läßt sich schön übersetzen.",
]
FINNISH = [
    "Hyvää yötä, sanoi äiti, ja pöytä jäi yöksi ilman syötävää.",
    "Yöllä pöydän ääressä äiti söi hyvää pääsiäisruokaa.",
]
CHINESE = ["我们用生成器替换一些词,判别器判断每个词是不是原来的词。", "生成器和判别器一起训练,判别器用来做别的任务。"]
JAPANESE = ["東京の天気がいいので、公園へ行きました。", "天気がよければ、東京の公園で本を読みます。"]
CORPUS = [*ENGLISH, *GERMAN, *FINNISH] * 3
VOCAB_SIZES = {"wordpiece": 160, "byte_bpe": 320, "unigram": 100}

REFERENCE_SPECIAL_TOKENS = ["<PAD>", "<MASK>", "<BOS>", "<EOS>", "<SEP>", "<UNK>"]

algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)


def train(
    algorithm: str = "wordpiece", documents: list[str] | None = None, seed: int = 42, **options: object
) -> PreTrainedTokenizerBase:
    options = {"vocab_size": VOCAB_SIZES[algorithm], **options}
    return train_tokenizer(
        CORPUS if documents is None else documents,
        TokenizerArguments(tokenizer_algorithm=algorithm, **options),  # type: ignore[arg-type]
        seed,
    )


def bert_tokenizer(*tokens: str, **options: object) -> BertTokenizer:
    return BertTokenizer(vocab={token: i for i, token in enumerate([*SPECIAL_TOKENS.values(), *tokens])}, **options)


def saved(tokenizer: PreTrainedTokenizerBase, folder: Path) -> str:
    tokenizer.save_pretrained(folder)
    return str(folder)


def unknown_rate(tokenizer: PreTrainedTokenizerBase, text: str) -> float:
    ids = plain_backend(tokenizer).encode(text, add_special_tokens=False).ids
    return ids.count(tokenizer.unk_token_id) / len(ids)


# ---------------------------------------------------------------------------------------------------------- training


@algorithms
def test_a_trained_tokenizer_keeps_the_special_token_contract(algorithm: str) -> None:
    tokenizer = train(algorithm)
    check_tokenizer(tokenizer, algorithm)
    ids = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id]
    assert [*ids, tokenizer.mask_token_id] == [0, 1, 2, 3, 4]
    assert len(tokenizer) == VOCAB_SIZES[algorithm]
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer)))
    first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("The dog", "real words"))
    encoded = tokenizer("The dog", "real words")
    assert encoded["input_ids"] == [2, *first, 3, *second, 3]
    assert encoded["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert tokenizer("The dog")["input_ids"] == [2, *first, 3]


@algorithms
@pytest.mark.parametrize("lowercase", [True, False])
def test_auto_tokenizer_gives_back_the_tokenizer_that_was_saved(
    algorithm: str, lowercase: bool, tmp_path: Path
) -> None:
    tokenizer = train(algorithm, lowercase=lowercase)
    for loaded in (AutoTokenizer.from_pretrained(saved(tokenizer, tmp_path)), load_tokenizer(str(tmp_path))):
        check_tokenizer(loaded, algorithm)
        for text in [*CORPUS, *CHINESE, "never SEEN: Ünïcödé\n\tand  spaces"]:
            assert loaded(text, "B side").data == tokenizer(text, "B side").data
        assert tokenizer_fingerprint(loaded) == tokenizer_fingerprint(tokenizer)


@algorithms
def test_training_again_in_any_order_gives_the_same_vocabulary(algorithm: str) -> None:
    # Every word once or twice: nearly all merges are ties, which the bare WordPieceTrainer breaks at random.
    documents = [*ENGLISH, *GERMAN]
    fingerprints = set()
    for seed in range(6):
        random.Random(seed).shuffle(documents)
        fingerprints.add(tokenizer_fingerprint(train(algorithm, documents, min_frequency=1)))
    assert len(fingerprints) == 1


def test_wordpiece_is_a_bert_tokenizer_whose_cased_umlauts_survive_loading(tmp_path: Path) -> None:
    tokenizer = train(documents=GERMAN * 3, lowercase=False, vocab_size=300)
    assert type(tokenizer) is BertTokenizer
    loaded = AutoTokenizer.from_pretrained(saved(tokenizer, tmp_path))
    assert type(loaded) is BertTokenizer
    assert loaded.tokenize("Äpfel Größe über") == ["Äpfel", "Größe", "über"]
    assert loaded.decode(loaded("Äpfel Größe über", add_special_tokens=False)["input_ids"]) == "Äpfel Größe über"


@pytest.mark.parametrize(("strip_accents", "expected"), [(False, "äpfel größe über"), (None, "apfel große uber")])
def test_lowercase_strips_accents_unless_told_not_to(
    strip_accents: bool | None, expected: str, tmp_path: Path
) -> None:
    tokenizer = train(documents=GERMAN * 3, strip_accents=strip_accents, vocab_size=300)
    loaded = AutoTokenizer.from_pretrained(saved(tokenizer, tmp_path))
    assert loaded.tokenize("Äpfel Größe über") == expected.split()


def test_wordpiece_makes_every_chinese_character_a_token() -> None:
    tokenizer = train(documents=CHINESE * 3)
    assert tokenizer.tokenize("判别器替换词") == ["判", "别", "器", "替", "换", "词"]


def test_wordpiece_orders_special_tokens_characters_continuations_merges() -> None:
    tokenizer = train(documents=["ab ab ba"], vocab_size=10, min_frequency=2)
    assert tokenizer.get_vocab() == {
        **{token: i for i, token in enumerate(SPECIAL_TOKENS.values())},
        **{"a": 5, "b": 6, "##a": 7, "##b": 8, "ab": 9},
    }


def test_cased_byte_bpe_is_lossless_and_knows_everything() -> None:
    tokenizer = train("byte_bpe", lowercase=False)
    for text in [*CORPUS, *CHINESE, *JAPANESE, " leading,  double . \n\ttab é e\u0301 \x00 🙂 ñandú"]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert tokenizer.unk_token_id not in ids


def test_byte_bpe_and_unigram_fold_case_and_accents_as_bert_does() -> None:
    documents = [*CORPUS, "한국어 문장"]
    for algorithm in ("byte_bpe", "unigram"):
        normalize = train(algorithm, documents).backend_tokenizer.normalizer.normalize_str
        assert normalize("Ärger Élan 한국어") == "arger elan 한국어"
        normalize = train(algorithm, documents, strip_accents=False).backend_tokenizer.normalizer.normalize_str
        assert normalize("Ärger Élan") == "ärger élan"
    assert train("byte_bpe", lowercase=False).backend_tokenizer.normalizer is None


def test_unigram_reads_any_white_space_and_compatibility_form_as_the_plain_one() -> None:
    tokenizer = train("unigram", lowercase=False)
    ids = tokenizer("the words are real")["input_ids"]
    assert tokenizer("  the\nwords\t\x00ａｒｅ\u3000real \n")["input_ids"] == ids
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the words are real"
    assert tokenizer.unk_token_id in tokenizer("the 狐 dog")["input_ids"]


def test_rare_characters_of_a_large_alphabet_stay_known() -> None:
    """A limit of 1000 characters, tokenizers' default for BERT, leaves 15 % of this text unknown."""
    generator = random.Random(0)
    characters = [chr(0x4E00 + i) for i in range(2500)]
    weights = [1 / (rank + 10) for rank in range(len(characters))]
    documents = ["".join(generator.choices(characters, weights, k=200)) for _ in range(400)]
    for algorithm in ("wordpiece", "unigram"):
        tokenizer = train(algorithm, documents[:350], vocab_size=8000)
        assert unknown_rate(tokenizer, " ".join(documents[350:])) < 0.005


def test_the_alphabet_is_what_covers_the_text_and_at_least_the_common_characters() -> None:
    rare = [chr(0x4E00 + i) for i in range(2000)]
    words = {"ab": 10_000_000, "c": 1_000_000, **dict.fromkeys(rare, 1)}
    # a, b and c cover 99.99 %; the rest is filled with the lowest code points up to a quarter of the vocabulary ...
    assert _choose_alphabet(words, vocab_size=40) == {"a", "b", "c", *rare[:7]}
    # ... and up to 1000 of however large a vocabulary.
    assert _choose_alphabet(words, vocab_size=30522) == {"a", "b", "c", *rare[:997]}
    # Characters the text needs are kept, however many: 2 characters in 10000 are allowed to go missing here, not 6.
    words = {"a": 9994, **dict.fromkeys(rare[:6], 1)}
    assert _choose_alphabet(words, vocab_size=4) == {"a", rare[0]}


def test_words_with_a_character_outside_the_alphabet_teach_nothing_false() -> None:
    rare = [chr(0x430 + i) for i in range(32)] + [chr(0x561 + i) for i in range(38)]
    documents = [*["aa bb"] * 40_000, *[f"{letter}q{letter}q" for letter in rare]]
    # The alphabet: a, b, q and rare letters up to a quarter of the vocabulary; Armenian, the last, is left out.
    wordpiece = train(documents=documents, vocab_size=80)
    assert wordpiece.tokenize("аqаq ֆqֆq") == ["а", "##q", "##а", "##q", "[UNK]"]
    # Leaving out the letter but not its word would put its neighbours side by side.
    assert not any("qq" in token for token in wordpiece.get_vocab())
    unigram = train("unigram", documents, vocab_size=80)
    assert unigram.unk_token_id not in unigram("aa bb аqаq")["input_ids"]
    assert not any("ֆ" in token or "qq" in token for token in unigram.get_vocab())


@algorithms
def test_documents_are_streamed_once_and_their_errors_come_through(algorithm: str) -> None:
    def stream() -> Iterator[str]:
        yield from CORPUS
        raise UserError("file 7 is damaged")

    with pytest.raises(UserError, match="file 7 is damaged"):
        train_tokenizer(stream(), TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=300))
    options = TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=VOCAB_SIZES[algorithm])
    assert tokenizer_fingerprint(train_tokenizer(iter(CORPUS), options)) == tokenizer_fingerprint(train(algorithm))


@algorithms
def test_fewer_tokens_than_asked_for_is_a_warning_with_both_numbers(
    algorithm: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = train(algorithm, vocab_size=5000)
    (record,) = [r for r in caplog.records if r.name == "electra.tokenizer_training"]
    assert record.levelname == "WARNING"
    assert str(len(tokenizer)) in record.getMessage() and "vocab_size=5000" in record.getMessage()


@algorithms
@pytest.mark.parametrize("documents", [[], ["", ""]])
def test_no_text_is_an_error(algorithm: str, documents: list[str]) -> None:
    assert "no text" in refused(lambda: train(algorithm, documents))


def test_a_vocabulary_smaller_than_its_alphabet_is_an_error_that_says_what_would_do() -> None:
    # The alphabets: a b ##a ##b, then ▁ a b, then the bytes.
    for algorithm, size in [("wordpiece", 8), ("unigram", 7), ("byte_bpe", 260)]:
        message = refused(lambda a=algorithm, s=size: train(a, ["ab ab ba"], vocab_size=s))
        assert f"vocab_size={size} " in message and f"at least {size + 1}" in message
    assert len(train("byte_bpe", vocab_size=261)) == 261


@pytest.mark.parametrize("algorithm", ["wordpiece", "byte_bpe"])
def test_a_min_frequency_that_no_pair_reaches_is_an_error(algorithm: str) -> None:
    assert "min_frequency=100000" in refused(lambda: train(algorithm, min_frequency=100000))


def test_isolated_characters_need_no_merges() -> None:
    assert len(train(documents=["我 们 用 词"], min_frequency=100000, vocab_size=50)) == 9


def test_max_documents_is_a_uniform_sample_without_replacement() -> None:
    documents = [f"document {i}" for i in range(50)]
    samples = [_sample_documents(iter(documents), 10, seed) for seed in range(1000)]
    assert all(len(set(sample)) == 10 for sample in samples)
    assert all(sample == sorted(sample, key=documents.index) for sample in samples)
    assert samples[7] == _sample_documents(documents, 10, 7)
    drawn = Counter(document for sample in samples for document in sample)
    # Each is drawn with probability 0.2: 200 +- 12.6 times, here within 4.5 standard deviations.
    assert all(143 < drawn[document] < 257 for document in documents)
    assert _sample_documents(documents, 60, 0) == documents


def test_max_documents_trains_on_the_sample_and_nothing_else() -> None:
    sample = _sample_documents(CORPUS, 9, seed=3)
    assert sample != CORPUS[:9]
    limited = train(max_documents=9, seed=3)
    assert tokenizer_fingerprint(limited) == tokenizer_fingerprint(train(documents=sample))
    assert tokenizer_fingerprint(limited) != tokenizer_fingerprint(train(max_documents=9, seed=4))


# --------------------------------------------------------------------------------------- encoding, fingerprint, report


@algorithms
@pytest.mark.parametrize("lowercase", [True, False])
def test_text_that_spells_a_special_token_is_text_to_the_plain_backend(algorithm: str, lowercase: bool) -> None:
    tokenizer = train(algorithm, [*CORPUS, *["[MASK] [SEP] [CLS] [PAD]"] * 5], lowercase=lowercase)
    text = "the [MASK] word [SEP][CLS] ［MASK］ [PAD]"
    special = {0, 2, 3, 4}
    assert special <= set(tokenizer(text)["input_ids"])
    backend = plain_backend(tokenizer)
    # The worker processes that encode a corpus get a pickled copy.
    for plain in (backend, pickle.loads(pickle.dumps(backend))):
        assert special.isdisjoint(plain.encode(text).ids)
    for sentence in CORPUS:
        assert backend.encode(sentence).ids == tokenizer(sentence, add_special_tokens=False)["input_ids"]


def test_a_unigram_model_that_scores_a_special_token_highest_does_not_find_it_in_text() -> None:
    pieces = [("<unk>", 0.0), ("<mask>", 0.0), ("▁", -1.0), ("<", -2.0), ("mask", -2.0), (">", -2.0)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, mask_token="<mask>", unk_token="<unk>")
    assert tokenizer("<mask>")["input_ids"] == [1]
    assert plain_backend(tokenizer).encode("<mask>").ids == [2, 3, 4, 5]


@pytest.mark.parametrize("ignore_merges", [True, False])
def test_a_bpe_model_that_could_merge_its_way_to_a_special_token_does_not(ignore_merges: bool) -> None:
    vocab = {"<SEP>": 0, "<": 1, "S": 2, "E": 3, "P": 4, ">": 5, "<S": 6, "EP": 7, "<SEP": 8, "x": 9}
    merges = [("<", "S"), ("E", "P"), ("<S", "EP"), ("<SEP", ">")]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, sep_token="<SEP>")
    assert tokenizer("x <SEP>")["input_ids"] == [9, 0]
    assert plain_backend(tokenizer).encode("x <SEP>").ids == [9, 8, 5]


def test_the_plain_backend_neither_truncates_nor_pads_and_leaves_the_tokenizer_alone() -> None:
    tokenizer = train()
    tokenizer(["the dog", "the"], truncation=True, max_length=3, padding="max_length")
    before = tokenizer.backend_tokenizer.to_str()
    plain = plain_backend(tokenizer)
    assert [len(e.ids) for e in plain.encode_batch_fast(["the the the the", "the"])] == [4, 1]
    assert tokenizer.backend_tokenizer.to_str() == before
    assert plain.get_vocab_size() == len(tokenizer)


def test_tokens_added_by_hand_keep_their_ids_in_the_plain_backend() -> None:
    tokenizer = bert_tokenizer("a", "b")
    tokenizer.add_special_tokens({"extra_special_tokens": ["<ctrl>"]})
    tokenizer.add_tokens([AddedToken("newword")])
    assert tokenizer("a newword b", add_special_tokens=False)["input_ids"] == [5, 8, 6]
    plain = plain_backend(tokenizer)
    assert plain.encode("a newword b").ids == [5, 8, 6]
    assert 7 not in plain.encode("a <ctrl> b").ids


def test_unknown_words_are_still_unknown_to_the_plain_backend() -> None:
    assert plain_backend(bert_tokenizer("a")).encode("a q [UNK]").ids == [5, 1, 1, 1, 1]  # a, q, [, unk, ]


@algorithms
def test_the_fingerprint_does_not_change_with_what_changes_no_id(algorithm: str, tmp_path: Path) -> None:
    tokenizer = train(algorithm)
    fingerprint = tokenizer_fingerprint(tokenizer)
    assert len(fingerprint) == 64
    int(fingerprint, 16)
    tokenizer(["a", "the dog"], truncation=True, max_length=4, padding="max_length")
    tokenizer.model_max_length = 128
    assert tokenizer_fingerprint(tokenizer) == fingerprint
    assert tokenizer_fingerprint(load_tokenizer(saved(tokenizer, tmp_path))) == fingerprint


def test_the_fingerprint_changes_with_everything_that_changes_an_id() -> None:
    changed = [
        bert_tokenizer("a", "b"),
        bert_tokenizer("b", "a"),
        bert_tokenizer("a", "b", "c"),
        bert_tokenizer("a", "b", do_lower_case=False),
        bert_tokenizer("a", "b", strip_accents=False),
        bert_tokenizer("a", "b", mask_token="a"),
        bert_tokenizer("a", "b", mask_token="[PAD]", pad_token="[MASK]"),
    ]
    with_word, without_frame = bert_tokenizer("a", "b"), bert_tokenizer("a", "b")
    with_word.add_tokens(["c"])
    without_frame.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
    assert len({tokenizer_fingerprint(tokenizer) for tokenizer in [*changed, with_word, without_frame]}) == 9


# ----------------------------------------------------------------------------------------------------------- loading


@pytest.fixture(params=["ByteLevelBPETokenizer-vocab_size=300-min_frequency=2", "vocab.json"])
def reference_json(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tokenizer as the ELECTRA reproduction of the ML Reproducibility Challenge 2020 saves it: a bare JSON file."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=300, special_tokens=REFERENCE_SPECIAL_TOKENS, show_progress=False)
    path = tmp_path / request.param
    tokenizer.save(str(path))
    return path


def test_the_single_json_of_the_reference_gets_its_roles_and_frame(reference_json: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(reference_json))
    check_tokenizer(tokenizer, "reference")
    roles = ("pad_token", "mask_token", "cls_token", "eos_token", "sep_token", "unk_token")
    assert [getattr(tokenizer, f"{role}_id") for role in roles] == [0, 1, 2, 3, 4, 5]
    assert [getattr(tokenizer, role) for role in roles] == REFERENCE_SPECIAL_TOKENS
    reference = Tokenizer.from_file(str(reference_json))
    a, b = (reference.encode(text).ids for text in ("The dog", " real words"))
    encoded = tokenizer("The dog", " real words")
    assert encoded["input_ids"] == [2, *a, 4, *b, 4]
    assert encoded["token_type_ids"] == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert {0, 1, 2, 4}.isdisjoint(plain_backend(tokenizer).encode("<MASK> <SEP><BOS> <PAD>").ids)

    loaded = load_tokenizer(saved(tokenizer, tmp_path / "saved"))
    assert tokenizer_fingerprint(loaded) == tokenizer_fingerprint(tokenizer)


def test_a_bare_json_with_berts_names_gets_the_frame_it_lacks(tmp_path: Path) -> None:
    bare = BertWordPieceTokenizer(lowercase=True)
    bare.train_from_iterator(CORPUS, vocab_size=200, show_progress=False)
    bare._tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
    bare.save(str(tmp_path / "tokenizer.json"))
    ids = bare.encode("The dog").ids
    # The file, and the folder around it: without a tokenizer_config.json AutoTokenizer would know no special token.
    for path in (tmp_path / "tokenizer.json", tmp_path):
        tokenizer = load_tokenizer(str(path))
        check_tokenizer(tokenizer, str(path))
        assert tokenizer("The dog")["input_ids"] == [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]


def test_a_json_without_known_special_tokens_is_an_error(tmp_path: Path) -> None:
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.save(str(tmp_path / "gpt.json"))
    message = refused(lambda: load_tokenizer(str(tmp_path / "gpt.json")))
    assert "gpt.json" in message and "[CLS]" in message and "<BOS>" in message


def test_a_repeated_line_of_a_vocab_txt_leaves_a_gap(tmp_path: Path) -> None:
    lines = [*SPECIAL_TOKENS.values(), "a", "b", "a", "c"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = load_tokenizer(str(tmp_path / "vocab.txt"))
    assert tokenizer("a b c")["input_ids"] == [2, 7, 6, 8, 3]
    assert vocabulary_size(tokenizer) == len(lines) and vocabulary_gaps(tokenizer) == [[5, 6]]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["apfel", "gro", "##ße", "uber"], ["apfel", "gro", "##ße", "uber"]),
        (["äpfel", "gro", "##ße", "über"], ["äpfel", "gro", "##ße", "über"]),
        (["Äpfel", "Größe", "über"], ["Äpfel", "Größe", "über"]),
    ],
    ids=["uncased", "uncased with accents", "cased"],
)
def test_a_vocab_txt_says_by_its_tokens_whether_it_is_cased(
    tokens: list[str], expected: list[str], tmp_path: Path
) -> None:
    lines = [*SPECIAL_TOKENS.values(), "[unused0]", "\u2028", *tokens]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = "Äpfel Größe über" if len(expected) == 3 else "Äpfel Große über"
    for path in (tmp_path, tmp_path / "vocab.txt"):
        tokenizer = load_tokenizer(str(path))
        check_tokenizer(tokenizer, str(path))
        assert tokenizer.tokenize(text) == expected
        assert tokenizer.convert_tokens_to_ids(tokens[-1]) == len(lines) - 1 == len(tokenizer) - 1
    (tmp_path / "config.json").write_text('{"model_type": "electra"}')
    assert load_tokenizer(str(tmp_path)).tokenize(text) == expected


@pytest.mark.parametrize("subfolder", ["tokenizer", "discriminator"])
def test_a_run_folder_stands_for_the_tokenizer_in_it(subfolder: str, tmp_path: Path) -> None:
    tokenizer = train()
    saved(tokenizer, tmp_path / subfolder)
    assert tokenizer_fingerprint(load_tokenizer(str(tmp_path))) == tokenizer_fingerprint(tokenizer)


def test_a_normalizer_that_loading_changes_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = saved(train(lowercase=False, documents=GERMAN * 3), tmp_path)
    caplog.clear()
    load_tokenizer(folder)
    assert not caplog.records
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "do_lower_case": True}))
    load_tokenizer(folder)
    assert folder in caplog.text and "do_lower_case" in caplog.text


def test_what_is_not_a_tokenizer_is_a_one_line_error(tmp_path: Path) -> None:
    empty, damaged, text = tmp_path / "empty", tmp_path / "damaged", tmp_path / "notes.txt"
    empty.mkdir()
    saved(train(), damaged)
    (damaged / "tokenizer.json").write_text("{ not json")
    text.write_text("just\nsome\nlines\n")
    (tmp_path / "config.json").write_text('{"hidden_size": 256}')
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "latin.txt").write_bytes("Größe".encode("latin-1"))
    for path, found in [
        (tmp_path / "nowhere", ""),
        (empty, "tokenizer.json"),
        (damaged, ""),
        (damaged / "tokenizer.json", ""),
        (tmp_path / "config.json", ""),
        (tmp_path / "binary", ""),
        (text, "[PAD] or [UNK]"),
        (tmp_path / "latin.txt", "UTF-8"),
    ]:
        message = refused(lambda path=path: load_tokenizer(str(path)))
        assert str(path) in message and found in message


@pytest.mark.parametrize("path", ["", "./mine", "../mine", "~/mine", "a/b/c", "mine.json", "mine.txt", "C:\\mine"])
def test_a_missing_path_is_not_looked_for_on_the_hub(path: str) -> None:
    message = refused(lambda: load_tokenizer(path))
    assert path in message and "nor on the Hub" not in message and "not found on the Hub" not in message


def test_a_hub_id_without_the_hub_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = refused(lambda: load_tokenizer("nobody/no-such-tokenizer"))
    assert "nobody/no-such-tokenizer" in message and "Hub" in message


def test_a_tokenizer_without_a_rust_backend_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowTokenizer:
        is_fast = False

    monkeypatch.setattr("electra.tokenizer.AutoTokenizer.from_pretrained", lambda *_, **__: SlowTokenizer())
    for name in ("tokenizer_config.json", "vocab.json"):
        (tmp_path / name).write_text("{}")
    assert "SlowTokenizer" in refused(lambda: load_tokenizer(str(tmp_path)))
    assert "SlowTokenizer" in refused(lambda: check_tokenizer(SlowTokenizer(), "slow"))  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------------- checking


def test_checking_names_every_missing_special_token() -> None:
    backend = Tokenizer(models.WordLevel({"[CLS]": 0, "[SEP]": 1, "[PAD]": 2, "a": 3}))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]"
    )
    message = refused(lambda: check_tokenizer(tokenizer, "mine"))
    assert "tokenizer mine has no mask token and no unk token" in message


def test_a_byte_level_tokenizer_may_lack_the_unknown_token(tmp_path: Path) -> None:
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(CORPUS, vocab_size=300, special_tokens=REFERENCE_SPECIAL_TOKENS[:-1], show_progress=False)
    bpe.save(str(tmp_path / "bpe"))
    tokenizer = load_tokenizer(str(tmp_path / "bpe"))
    assert tokenizer.unk_token is None
    check_tokenizer(tokenizer, "bpe")
    assert unknown_rate(tokenizer, CHINESE[0]) == 0


def test_checking_refuses_special_tokens_that_share_an_id() -> None:
    tokenizer = bert_tokenizer("a", sep_token="[CLS]")
    assert "cls_token 2, sep_token 2" in refused(lambda: check_tokenizer(tokenizer, "mine"))


def test_checking_refuses_a_tokenizer_that_frames_no_text() -> None:
    tokenizer = bert_tokenizer("a")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
    assert "[CLS] and [SEP]" in refused(lambda: check_tokenizer(tokenizer, "mine"))


def test_a_tokenizer_that_lost_its_vocabulary_is_an_error(tmp_path: Path) -> None:
    train_tokenizer(ENGLISH, TokenizerArguments(vocab_size=80)).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert "no vocabulary" in refused(lambda: load_tokenizer(str(tmp_path)))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    tokenizer = load_tokenizer(str(tmp_path / "vocab.txt"))
    assert "5 special tokens" in refused(lambda: check_tokenizer(tokenizer, "empty"))


def test_no_trainer_is_given_a_word_of_thousands_of_characters() -> None:
    """Their time is quadratic in a word's length: one encoded image in the text would stop them."""
    broken = _break_long_words("short words " + "x" * 100_000 + " " + "y" * 500)
    assert max(map(len, broken.split())) == 500
    assert broken.replace(" ", "") == "shortwords" + "x" * 100_000 + "y" * 500
    assert _break_long_words("nothing to do\nhere") == "nothing to do\nhere"
