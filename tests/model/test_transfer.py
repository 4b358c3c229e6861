"""Trained weights in networks of other sizes: each row of a table is that of its token or position before."""

import torch
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM, BertTokenizer

from electra.core.configuration import longest_text, network_config
from electra.core.networks import embedding_modules, masked_lm, rtd_model
from electra.model.pretrained import load_network, read_config
from electra.model.transfer import (
    POSITIONS_KEY,
    VocabularyRows,
    resize,
    rows_of_vocabulary,
    trained_positions,
    transfer,
)
from electra.tokenizers.extend import extend_tokenizer
from electra.tokenizers.load import SPECIAL_TOKENS, plain_backend, wrap_backend
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from tests.conftest import TEXTS, refused
from tests.helpers import parametrize

BACKBONES = ("electra", "bert", "albert", "roberta", "deberta-v2", "modernbert")
"""One of each kind of tables; the others have the modules of one of these."""
DOMAIN = ["the kubelet mounts volumes", "a kubelet and another kubelet mount the volume"] * 3


def trained_on(texts, algorithm, vocab_size):
    """A tokenizer of these texts."""
    return train_on_documents(texts, TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=vocab_size))


def config_of(model_type):
    """The configuration of a network of two layers, 40 tokens and 16 positions."""
    return network_config(
        model_type=model_type, vocab_size=40, pad_token_id=0, embedding_size=8, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=24, max_position_embeddings=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip


@parametrize(("algorithm", "size"), [("wordpiece", 160), ("byte_bpe", 300), ("unigram", 100)])
def test_new_words_are_the_mean_of_the_pieces_that_they_replace(algorithm, size):
    old = trained_on([*TEXTS * 3, "qubelet moun"], algorithm, size)
    new = extend_tokenizer(old, DOMAIN, 5, 2)
    rows = rows_of_vocabulary(old, new)
    assert rows.kept_rows == {index: index for index in range(len(old))}
    assert (len(rows.kept_rows), len(rows.averaged_rows), rows.size) == (len(old), 5, len(old) + 5)
    for text in DOMAIN:  # cut by the new tokenizer, and the new tokens by their rows: cut by the old one
        ids = plain_backend(new).encode(text, add_special_tokens=False).ids
        pieces = [piece for index in ids for piece in rows.averaged_rows.get(index, [index])]
        assert pieces == plain_backend(old).encode(text, add_special_tokens=False).ids


def test_new_ends_of_words_are_the_mean_of_ends_of_words():
    """`##ingly` is not cut as the word "ingly", whose first piece is `in`."""
    vocabularies = [["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "in", "go", "##ing", "##ly", "##g"]] * 2
    vocabularies[1] = [*vocabularies[1], "##ingly", "ingly", "##inx"]
    old, new = (BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}) for tokens in vocabularies)
    rows = rows_of_vocabulary(old, new)
    assert rows.averaged_rows == {10: [7, 8], 11: [5, 9, 8]}
    assert (len(rows.kept_rows), len(rows.averaged_rows), rows.size) == (10, 2, 13)


def test_tokens_are_matched_by_role_and_by_name():
    old = trained_on(TEXTS * 3, "wordpiece", 160)
    new = wrap_backend(old.backend_tokenizer, {**SPECIAL_TOKENS, "mask_token": "[PAD]", "pad_token": "[MASK]"})
    rows = rows_of_vocabulary(old, new)
    names = {**old.get_vocab(), "[MASK]": old.pad_token_id, "[PAD]": old.mask_token_id}
    assert rows.kept_rows == {index: names[token] for token, index in new.get_vocab().items()}


def test_a_vocabulary_of_another_algorithm_is_refused():
    wordpiece, unigram = (trained_on(TEXTS * 3, name, size) for name, size in (("wordpiece", 160), ("unigram", 100)))
    assert "Unigram" in refused(lambda: rows_of_vocabulary(wordpiece, unigram))


def test_a_token_of_unknown_characters_is_new():
    old = trained_on(TEXTS * 3, "wordpiece", 160)
    new = trained_on([*TEXTS * 3, "Σ Σ"], "wordpiece", 160)
    rows = rows_of_vocabulary(old, new)
    assert new.get_vocab()["σ"] not in {**rows.kept_rows, **rows.averaged_rows}


@parametrize("model_type", BACKBONES)
def test_every_table_of_the_vocabulary_is_filled(model_type, tmp_path):
    torch.manual_seed(0)
    source = masked_lm(config_of(model_type))
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.normal_()
    source.save_pretrained(tmp_path)
    trained, _ = load_network(AutoModelForMaskedLM, str(tmp_path))
    config = read_config(str(tmp_path))
    resize(config, vocab_size=50, pad_token_id=0, positions=16, layers=1)
    network = masked_lm(config)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    rows = VocabularyRows({index: index for index in range(40)}, {40: [3, 5]}, 50)
    network.load_state_dict(transfer(trained, network, network.state_dict(), rows, 0))
    table, old = (embedding_modules(module)["word"].weight for module in (network, source))
    assert torch.equal(table[:40], old) and torch.equal(table[40], (old[3] + old[5]) / 2)
    head = network.get_output_embeddings()
    old_head = source.get_output_embeddings()
    assert torch.equal(head.weight, table)  # still tied
    assert torch.equal(head.bias[:41], torch.cat([old_head.bias, old_head.bias[[3, 5]].mean(dim=0, keepdim=True)]))
    for name, value in network.state_dict().items():
        if value.shape[:1] == (50,):
            assert torch.equal(value[41:], before[name][41:])  # as initialized
        else:
            assert torch.equal(value, source.state_dict()[name])
    ids = torch.randint(5, 40, (2, 16))
    assert network(input_ids=ids).logits.shape == (2, 16, 50)


@parametrize("model_type", [*BACKBONES, "deberta-v2 with a table"])
def test_positions_grow_by_repeating_those_that_were_trained(model_type):
    torch.manual_seed(0)
    model_type, has_table = model_type.split()[0], " " in model_type
    before = config_of(model_type)
    config = config_of(model_type)
    if has_table:  # transformers' default, not that of the released ones
        before.position_biased_input = config.position_biased_input = True
    source = rtd_model(before)
    resize(config, vocab_size=40, pad_token_id=0, positions=40, layers=2)
    assert longest_text(config) == 40
    network = rtd_model(config)
    network.load_state_dict(transfer(source, network, network.state_dict(), None, 12))
    ids = torch.randint(5, 40, (1, 40))
    hidden = [module.eval().base_model(input_ids=ids[:, :12]).last_hidden_state for module in (source, network)]
    assert_close(*hidden)  # short texts are read as before
    assert network.base_model(input_ids=ids).last_hidden_state.shape == (1, 40, 16)
    position = embedding_modules(network).get("position")
    assert position is not None or (model_type in ("deberta-v2", "modernbert") and not has_table)
    if position is not None:
        table = position.weight[1 if model_type == "roberta" else 0 :][:40]
        assert torch.equal(table[12:24], table[:12]) and torch.equal(table[36:], table[:4])


def test_the_trained_positions_are_recorded():
    config = config_of("electra")
    assert trained_positions(config) == 16
    setattr(config, POSITIONS_KEY, 8)
    assert trained_positions(config) == 8
