"""Tokenizers are trained on a few dozen sentences in five languages, saved, loaded and looked at token by token."""

import pickle
import random
import re
from collections import Counter
from dataclasses import replace

from tokenizers import (
    AddedToken,
    ByteLevelBPETokenizer,
    CharBPETokenizer,
    Tokenizer,
    models,
    pre_tokenizers,
    processors,
)
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerFast

from electra.base.console import setup_logging
from electra.core.errors import UserError
from electra.model.pretrained import may_have_tokenizer
from electra.tokenizers.load import (
    SPECIAL_TOKENS,
    check_tokenizer,
    load_tokenizer,
    plain_backend,
    tokenizer_fingerprint,
    vocabulary_size,
)
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import (
    ALGORITHMS,
    _choose_alphabet,
    _sample_documents,
    train_on_documents,
)
from tests.conftest import TEXTS, refused
from tests.helpers import ROOT, parametrize

ENGLISH = [*TEXTS, "How much wood would a woodchuck chuck if a woodchuck could chuck wood?"]
GERMAN = [
    "Äpfel und Öl haben eine Größe, über die man sich übermäßig ärgern kann.",
    "Die Größe der Äpfel ärgert über alle Maßen die Übersetzer.",
    "Über Äpfel und ihre Größe läßt sich schön übersetzen.",
]
FINNISH = ["Hyvää yötä, sanoi äiti, ja pöytä jäi yöksi ilman syötävää."]
CHINESE = ["我们用生成器替换一些词,判别器判断每个词是不是原来的词。", "生成器和判别器一起训练,判别器用来做别的任务。"]
CORPUS = [*ENGLISH, *GERMAN, *FINNISH] * 3
VOCAB_SIZES = {"wordpiece": 150, "byte_bpe": 320, "unigram": 100}

algorithms = parametrize("algorithm", ALGORITHMS)


def train(algorithm="wordpiece", documents=None, seed=42, **options):
    """A tokenizer of CORPUS or of other documents, with the vocabulary of VOCAB_SIZES or of another size."""
    options = {"vocab_size": VOCAB_SIZES[algorithm], **options}
    arguments = TokenizerArguments(tokenizer_algorithm=algorithm, **options)
    return train_on_documents(CORPUS if documents is None else documents, arguments, seed)


def eurobert_tokenizer(folder, template):
    """A byte-level tokenizer with begin and end of a text in place of cls and sep, as EuroBERT has, saved."""
    backend = ByteLevelBPETokenizer()
    roles = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|pad|>", "mask_token": "<|mask|>"}
    backend.train_from_iterator(TEXTS, vocab_size=300, special_tokens=[*roles.values()])
    backend = backend._tokenizer
    if template:
        tokens = [(token, backend.token_to_id(token)) for token in ("<|begin|>", "<|end|>")]
        around = processors.TemplateProcessing(single=template, pair=f"{template} $B:1", special_tokens=tokens)
        backend.post_processor = processors.Sequence([backend.post_processor, around])
    return saved(PreTrainedTokenizerFast(tokenizer_object=backend, **roles), folder)


@parametrize("template", ["<|begin|> $A <|end|>", "<|begin|> $A", ""])
def test_begin_and_end_of_a_text_are_cls_and_sep_of_a_masked_lm(tmp_path, template):
    folder = eurobert_tokenizer(tmp_path / "eurobert", template)
    assert AutoTokenizer.from_pretrained(folder).cls_token is None
    tokenizer = load_tokenizer(folder)
    check_tokenizer(tokenizer, folder)
    assert (tokenizer.cls_token, tokenizer.sep_token, tokenizer.mask_token) == ("<|begin|>", "<|end|>", "<|mask|>")
    again = AutoTokenizer.from_pretrained(saved(tokenizer, tmp_path / "again"))
    for either in (tokenizer, again):
        ids = either("a b")["input_ids"]
        assert (ids[0], ids[-1]) == (either.cls_token_id, either.sep_token_id)
        assert either.decode(ids[1:-1]) == "a b"


def bert_tokenizer(*tokens, **options):
    """BERT's tokenizer with the special tokens, ids 0 to 4, and these tokens from id 5 on."""
    return BertTokenizer(vocab={token: i for i, token in enumerate([*SPECIAL_TOKENS.values(), *tokens])}, **options)


def saved(tokenizer, folder):
    """Save a tokenizer; return the folder as text."""
    tokenizer.save_pretrained(folder)
    return str(folder)


# Training


@algorithms
def test_a_trained_tokenizer_keeps_the_special_token_contract(algorithm):
    tokenizer = train(algorithm)
    check_tokenizer(tokenizer, algorithm)
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS.values())) == [0, 1, 2, 3, 4]
    assert {role: getattr(tokenizer, role) for role in SPECIAL_TOKENS} == SPECIAL_TOKENS
    assert len(tokenizer) == VOCAB_SIZES[algorithm] == vocabulary_size(tokenizer)
    first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("The dog", "real words"))
    encoded = tokenizer("The dog", "real words")
    assert encoded["input_ids"] == [2, *first, 3, *second, 3]
    assert encoded["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


@algorithms
@parametrize("lowercase", [True, False])
def test_auto_tokenizer_gives_back_the_tokenizer_that_was_saved(algorithm, lowercase, tmp_path):
    tokenizer = train(algorithm, lowercase=lowercase)
    for loaded in (AutoTokenizer.from_pretrained(saved(tokenizer, tmp_path)), load_tokenizer(str(tmp_path))):
        assert type(loaded) is type(tokenizer)
        for text in [*CORPUS, *CHINESE, "never SEEN: Ünïcödé\n\tand  spaces"]:
            assert loaded(text, "B side").data == tokenizer(text, "B side").data
        assert tokenizer_fingerprint(loaded) == tokenizer_fingerprint(tokenizer)


def test_a_clause_without_spaces_is_cut_into_pieces(tmp_path):
    thai = "สุนัขกำลังนอนหลับอยู่บนเตียงในห้องนอนของเด็กชาย"
    tokenizer = load_tokenizer(saved(train(documents=[thai * 2, thai[5:]] * 3, vocab_size=200), tmp_path))
    ids = tokenizer(thai * 10, add_special_tokens=False)["input_ids"]
    assert len(thai * 10) > 400
    assert len(ids) > 5
    assert tokenizer.unk_token_id not in ids
    assert tokenizer(thai * 30)["input_ids"] == [2, 1, 3]  # more characters than any clause has


@parametrize("algorithm", ["wordpiece", "byte_bpe"])
def test_training_again_in_any_order_gives_the_same_vocabulary(algorithm):
    # Every word once or twice: nearly all merges are ties, which the bare WordPieceTrainer breaks at random.
    documents = [*ENGLISH, *GERMAN]
    fingerprints = set()
    for seed in range(6):
        random.Random(seed).shuffle(documents)
        fingerprints.add(tokenizer_fingerprint(train(algorithm, documents, min_frequency=1)))
    assert len(fingerprints) == 1


@parametrize(
    ("options", "expected"),
    [
        ({}, "äpfel größe über"),
        ({"strip_accents": True}, "apfel große uber"),
        ({"lowercase": False}, "Äpfel Größe über"),
    ],
)
def test_accents_stay_unless_they_are_stripped(options, expected, tmp_path):
    tokenizer = train(documents=GERMAN * 3, vocab_size=300, **options)
    assert load_tokenizer(saved(tokenizer, tmp_path)).tokenize("Äpfel Größe über") == expected.split()
    for algorithm in ("byte_bpe", "unigram"):
        normalizer = train(algorithm, [*CORPUS, "한국어 문장"], **options).backend_tokenizer.normalizer
        text = "Äpfel Größe über 한국어"
        assert (normalizer.normalize_str(text) if normalizer else text) == f"{expected} 한국어"


def test_wordpiece_orders_its_vocabulary():
    tokenizer = train(documents=["ab ab ba"], vocab_size=10, min_frequency=2)
    expected = [*SPECIAL_TOKENS.values(), "a", "b", "##a", "##b", "ab"]
    assert tokenizer.get_vocab() == {token: i for i, token in enumerate(expected)}
    assert len(train(documents=["ab ab ba"], vocab_size=10, min_frequency=3)) == 9
    chinese = train(documents=CHINESE * 3)
    assert chinese.tokenize("判别器替换词") == ["判", "别", "器", "替", "换", "词"]


@parametrize(("min_frequency", "merged"), [(2, {"ab"}), (3, set())])
def test_byte_bpe_merges_pairs_that_are_frequent_enough(min_frequency, merged):
    tokenizer = train("byte_bpe", documents=["ab ab ba"], vocab_size=300, min_frequency=min_frequency)
    tokens = tokenizer.get_vocab().keys() - SPECIAL_TOKENS.values()
    assert {token for token in tokens if len(token) > 1} == merged


def test_cased_byte_bpe_is_lossless_and_knows_everything():
    tokenizer = train("byte_bpe", lowercase=False)
    for text in [*CORPUS, *CHINESE, " leading,  double . \n\ttab é e\u0301 \x00 🙂 ñandú"]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert tokenizer.unk_token_id not in ids


def test_the_alphabet_is_what_covers_the_text():
    rare = [chr(0x4E00 + i) for i in range(2000)]
    words = {"ab": 10_000_000, "c": 1_000_000, **dict.fromkeys(rare, 1)}
    # a, b and c cover 99.99 %; the rest is filled with the lowest code points up to a quarter of the vocabulary ...
    assert _choose_alphabet(words, vocab_size=40) == {"a", "b", "c", *rare[:7]}
    # ... and up to 1000 of however large a vocabulary.
    assert _choose_alphabet(words, vocab_size=30522) == {"a", "b", "c", *rare[:997]}
    # Characters the text needs are kept, however many: 2 characters in 10000 are allowed to go missing here, not 6.
    words = {"a": 9994, **dict.fromkeys(rare[:6], 1)}
    assert _choose_alphabet(words, vocab_size=4) == {"a", rare[0]}


def test_the_alphabet_of_a_large_script_takes_one_pass(monkeypatch):
    totals = []

    class Counted(Counter):
        def total(self):
            totals.append(super().total())
            return totals[-1]

    monkeypatch.setattr("electra.tokenizers.train.Counter", Counted)
    words = {chr(number): 2 for number in range(0x4E00, 0x4E00 + 1000)}
    assert _choose_alphabet(words, vocab_size=4000) == set(words)
    assert totals == [2000]


def test_words_outside_the_alphabet_teach_nothing_false():
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
def test_documents_are_streamed_once(algorithm):
    def stream():
        yield from CORPUS
        raise UserError("file 7 is damaged")

    options = TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=VOCAB_SIZES[algorithm])
    assert refused(lambda: train_on_documents(stream(), options)) == "file 7 is damaged"
    assert len(train_on_documents(iter(CORPUS), options)) == len(train(algorithm))
    assert "no text" in refused(lambda: train(algorithm, ["", ""]))


@parametrize(("algorithm", "size"), [("wordpiece", 9), ("unigram", 8), ("byte_bpe", 261)])
def test_a_vocabulary_below_its_alphabet_is_an_error(algorithm, size):
    # The alphabets: a b ##a ##b, then ▁ a b, then the bytes.
    message = refused(lambda: train(algorithm, ["ab ab ba"], vocab_size=size - 1))
    assert f"vocab_size={size - 1} " in message
    assert f"at least {size}" in message


def test_max_documents_is_a_uniform_sample_without_replacement():
    documents = [f"document {i}" for i in range(50)]
    samples = [_sample_documents(iter(documents), 10, seed) for seed in range(1000)]
    assert all(len(set(sample)) == 10 for sample in samples)
    counts = Counter(document for sample in samples for document in sample)
    # Each is drawn with probability 0.2: 200 +- 12.6 times, here within 4.5 standard deviations.
    assert all(143 < counts[document] < 257 for document in documents)
    assert _sample_documents(documents, 60, 0) == documents
    limited = tokenizer_fingerprint(train(max_documents=9, seed=3))
    assert limited == tokenizer_fingerprint(train(documents=_sample_documents(CORPUS, 9, seed=3)))


def test_a_sample_of_one_is_each_document_equally_often():
    counts = Counter(document for seed in range(600) for document in _sample_documents(iter("abc"), 1, seed))
    assert all(150 < counts[document] < 250 for document in "abc")  # 200 within 4.3 standard deviations


def test_no_trainer_is_given_a_word_of_thousands_of_characters():
    """Their time is quadratic in a word's length: one encoded image in the text would stop them."""
    tokenizer = train(documents=["x" * 4000], vocab_size=5000, min_frequency=1)
    assert 400 < max(map(len, tokenizer.get_vocab())) <= 500 + len("##")


# Encoding and fingerprint


@algorithms
@parametrize("lowercase", [True, False])
def test_text_that_spells_a_special_token_is_text(algorithm, lowercase):
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


def test_a_unigram_model_finds_no_special_token_in_text():
    pieces = [("<unk>", 0.0), ("<mask>", 0.0), ("▁", -1.0), ("<", -2.0), ("mask", -2.0), (">", -2.0)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, mask_token="<mask>", unk_token="<unk>")
    assert tokenizer("<mask>")["input_ids"] == [1]
    assert plain_backend(tokenizer).encode("<mask>").ids == [2, 3, 4, 5]


@parametrize("ignore_merges", [True, False])
def test_a_bpe_model_does_not_merge_its_way_to_a_special_token(ignore_merges):
    vocab = {"<SEP>": 0, "<": 1, "S": 2, "E": 3, "P": 4, ">": 5, "<S": 6, "EP": 7, "<SEP": 8, "x": 9}
    merges = [("<", "S"), ("E", "P"), ("<S", "EP"), ("<SEP", ">")]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, sep_token="<SEP>")
    assert tokenizer("x <SEP>")["input_ids"] == [9, 0]
    assert plain_backend(tokenizer).encode("x <SEP>").ids == [9, 8, 5]


def test_the_plain_backend_neither_truncates_nor_pads():
    tokenizer = bert_tokenizer("a", "b")
    tokenizer.add_special_tokens({"extra_special_tokens": ["<ctrl>"]})
    tokenizer.add_tokens([AddedToken("newword")])
    tokenizer(["a b a", "a"], truncation=True, max_length=3, padding="max_length")
    before = tokenizer.backend_tokenizer.to_str()
    plain = plain_backend(tokenizer)
    encodings = plain.encode_batch_fast(["a newword b b b", "a"])
    assert [encoding.ids for encoding in encodings] == [[5, 8, 6, 6, 6], [5]]
    assert 7 not in plain.encode("a <ctrl> b").ids
    assert plain.encode("a q [UNK]").ids == [5, 1, 1, 1, 1]  # a, q, [, unk, ]
    assert tokenizer.backend_tokenizer.to_str() == before


def test_the_fingerprint_changes_with_the_ids_only():
    changed = [
        bert_tokenizer("a", "b"),
        bert_tokenizer("b", "a"),
        bert_tokenizer("a", "b", "c"),
        bert_tokenizer("a", "b", do_lower_case=False),
        bert_tokenizer("a", "b", mask_token="[PAD]", pad_token="[MASK]"),
    ]
    with_word = bert_tokenizer("a", "b")
    without_frame = bert_tokenizer("a", "b")
    with_word.add_tokens(["c"])
    without_frame.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
    assert len({tokenizer_fingerprint(tokenizer) for tokenizer in [*changed, with_word, without_frame]}) == 7
    same = bert_tokenizer("a", "b", model_max_length=128)
    same(["a", "a b a b"], truncation=True, max_length=4, padding="max_length")
    assert tokenizer_fingerprint(same) == tokenizer_fingerprint(changed[0])


# Loading


def test_a_byte_level_tokenizer_may_lack_the_unknown_token_only(tmp_path):
    for name, special_tokens in (("good", ["[PAD]", "[MASK]", "[CLS]", "[SEP]"]), ("bad", ["<|endoftext|>"])):
        bpe = ByteLevelBPETokenizer()
        bpe.train_from_iterator(CORPUS, vocab_size=300, special_tokens=special_tokens, show_progress=False)
        bpe.save(str(tmp_path / name))
    tokenizer = load_tokenizer(str(tmp_path / "good"))
    check_tokenizer(tokenizer, "bpe")
    assert tokenizer.unk_token is None
    assert "neither [CLS]" in refused(lambda: load_tokenizer(str(tmp_path / "bad")))


def test_names_of_special_tokens_as_in_roberta_get_the_template(tmp_path):
    bpe = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bpe.train_from_iterator(CORPUS, vocab_size=300, special_tokens=special, show_progress=False)
    bpe.save(str(tmp_path / "bpe.json"))
    roberta = load_tokenizer(str(tmp_path / "bpe.json"))
    check_tokenizer(roberta, "roberta")
    assert roberta("the")["input_ids"][0] == 0
    assert roberta("the")["input_ids"][-1] == 2


@parametrize("algorithm", [ByteLevelBPETokenizer, CharBPETokenizer])
def test_the_snippet_of_the_page_saves_a_tokenizer_with_the_template(algorithm, tmp_path, monkeypatch):
    """With names of special tokens that only the user knows."""
    bpe = algorithm()
    special = ["<PAD>", "<MASK>", "<BOS>", "<SEP>", "<UNK>"]
    bpe.train_from_iterator(CORPUS, vocab_size=400, special_tokens=special, show_progress=False)
    bpe.save(str(tmp_path / "tokenizer.json"))
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tokenizer.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(snippet, {})
    for _ in range(2):  # and what is saved of it again
        loaded = load_tokenizer("my_tokenizer")
        check_tokenizer(loaded, "my_tokenizer")
        inner = loaded("the dog", add_special_tokens=False)["input_ids"]
        encoded = loaded("the dog", "the dog")
        assert encoded["input_ids"] == [2, *inner, 3, *inner, 3]
        assert encoded["token_type_ids"] == [0] * (len(inner) + 2) + [1] * (len(inner) + 1)
        loaded.save_pretrained("my_tokenizer")


def test_a_template_with_one_special_token_is_kept(tmp_path):
    backend = bert_tokenizer("the", "dog").backend_tokenizer
    around = {"single": "[UNK] $A", "pair": "[UNK] $A $B:1", "special_tokens": [("[UNK]", 1)]}
    backend.post_processor = processors.TemplateProcessing(**around)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL_TOKENS)
    loaded = load_tokenizer(saved(tokenizer, tmp_path))
    assert loaded("the dog")["input_ids"] == [1, 5, 6]
    assert "[CLS] and [SEP] around" in refused(lambda: check_tokenizer(loaded, "begin"))


def test_a_folder_with_only_a_bare_json_gets_berts_roles(tmp_path):
    bare = bert_tokenizer("the", "dog").backend_tokenizer
    bare.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
    bare.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path / "tokenizer.json", tmp_path):
        assert load_tokenizer(str(path))("The dog")["input_ids"] == [2, 5, 6, 3]


@parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_vocab_txt_is_that_of_an_uncased_bert(encoding, tmp_path):
    lines = [*SPECIAL_TOKENS.values(), "[unused0]", "\u2028", "apfel", "große", "apfel", "uber"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding=encoding)
    for path in (tmp_path, tmp_path / "vocab.txt"):
        tokenizer = load_tokenizer(str(path))
        assert tokenizer.tokenize("Äpfel Größe über") == ["apfel", "große", "uber"]
        assert tokenizer("apfel uber", add_special_tokens=False)["input_ids"] == [9, 10]  # 7 is a gap
        assert vocabulary_size(tokenizer) == len(lines)
        assert tokenizer.pad_token_id == 0


def test_a_folder_with_a_vocabulary_that_transformers_writes_has_a_tokenizer(tmp_path):
    """Those of BERT, RoBERTa, ALBERT, CamemBERT, DeBERTa-v3 and Llama have files of these names."""
    assert not may_have_tokenizer(tmp_path)
    for name in ("vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model"):
        (tmp_path / name).touch()
        assert may_have_tokenizer(tmp_path)
        (tmp_path / name).unlink()


def test_a_byte_order_mark_that_transformers_would_read_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS.values(), "a"]), encoding="utf-8-sig")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert "vocab.txt begins with a byte-order mark" in refused(lambda: load_tokenizer(str(tmp_path)))
    folder = saved(bert_tokenizer("a"), tmp_path / "saved")
    path = tmp_path / "saved" / "tokenizer.json"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert "tokenizer.json begins with a byte-order mark" in refused(lambda: load_tokenizer(folder))
    assert load_tokenizer(path)("a")["input_ids"] == [2, 5, 3]


@parametrize("subfolder", ["tokenizer", "discriminator"])
def test_a_run_folder_stands_for_the_tokenizer_in_it(subfolder, tmp_path):
    saved(bert_tokenizer("a", "b"), tmp_path / subfolder)
    assert load_tokenizer(str(tmp_path))("a b")["input_ids"] == [2, 5, 6, 3]


def test_what_is_not_a_tokenizer_is_refused_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    saved(bert_tokenizer("a"), tmp_path / "damaged")
    (tmp_path / "damaged" / "tokenizer.json").write_text("{ not json")
    (tmp_path / "notes.txt").write_text("just\nsome\nlines\n")
    (tmp_path / "latin.txt").write_bytes("Größe".encode("latin-1"))
    missing = {"empty": "tokenizer.json", "notes.txt": "[PAD] or [UNK]", "latin.txt": "utf-8"}
    for name in ("nowhere", "damaged", "damaged/tokenizer.json", *missing):
        message = refused(lambda path=tmp_path / name: load_tokenizer(str(path)))
        assert str(tmp_path / name) in message
        assert missing.get(name, "") in message
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for path, asks_the_hub in [("", False), ("~/mine", False), ("a/b/c", False), ("no/such-tokenizer", True)]:
        message = refused(lambda path=path: load_tokenizer(path))
        assert path in message
        assert ("cannot be loaded" in message) == asks_the_hub


def test_checking_says_what_a_tokenizer_lacks():
    backend = Tokenizer(models.WordLevel({"[CLS]": 0, "[SEP]": 1, "[PAD]": 2, "a": 3}))
    roles = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    unframed = bert_tokenizer("a")
    unframed.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
    for tokenizer, message_part in [
        (PreTrainedTokenizerFast(tokenizer_object=backend, **roles), "mine has no mask_token and no unk_token"),
        (bert_tokenizer("a", sep_token="[CLS]"), "distinct id"),
        (unframed, "[CLS] and [SEP]"),
    ]:
        assert message_part in refused(lambda tokenizer=tokenizer: check_tokenizer(tokenizer, "mine"))


def test_a_model_that_names_another_unknown_token_gets_that_of_its_roles(tmp_path):
    bpe = CharBPETokenizer()  # names <unk>, which training with other special tokens leaves out
    bpe.train_from_iterator(CORPUS, vocab_size=120, special_tokens=[*SPECIAL_TOKENS.values()], show_progress=False)
    bpe.save(str(tmp_path / "char.json"))
    tokenizer = load_tokenizer(str(tmp_path / "char.json"))
    check_tokenizer(tokenizer, "char")
    again = AutoTokenizer.from_pretrained(saved(tokenizer, tmp_path / "again"))
    for either in (tokenizer, again):
        assert either("日")["input_ids"][1:-1] == [either.unk_token_id]


@parametrize("algorithm", ["wordpiece", "byte_bpe", "unigram"])
@parametrize("is_unspaced", [True, False])
def test_wordpiece_without_spaces_between_words_is_warned_of(algorithm, is_unspaced, capfd):
    text = ["สุนัขกำลังนอนหลับอยู่บนเตียงในห้องนอน" if is_unspaced else "the dog sleeps on a bed"] * 20
    setup_logging()
    train_on_documents(text, TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=VOCAB_SIZES[algorithm]))
    is_warned_of = "--tokenizer_algorithm unigram" in capfd.readouterr().out
    assert is_warned_of == (is_unspaced and algorithm == "wordpiece")


@parametrize("algorithm", ["wordpiece", "byte_bpe", "unigram"])
@parametrize("is_turkish", [True, False])
def test_lower_cased_turkish_is_warned_of(algorithm, is_turkish, capfd):
    words = "IŞIK ışık kapı kapısı yıl yılı kız kızı altı altın adı adım sıra sıralı İZMİR balık kalın"
    text = [words if is_turkish else words.translate(str.maketrans("ıİ", "iI"))] * 20
    setup_logging()
    for lowercase in (True, False):
        options = TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=400, lowercase=lowercase)
        if algorithm == "unigram":
            options = replace(options, vocab_size=70)
        train_on_documents(text, options)
        assert ("--no_lowercase" in capfd.readouterr().out) == (is_turkish and lowercase)
