"""The command's probabilities are the exported model's; a run, its checkpoint and its folders are all opened."""

import json
import shutil

import torch
from pytest import approx, raises
from transformers import (
    AutoModelForPreTraining,
    AutoTokenizer,
    BertConfig,
    BertForPreTraining,
)

from electra.core.errors import UserError
from electra.model.inference import inspect_texts
from electra.model.pretrained import load_networks
from electra.tools.inspect import main
from tests.helpers import parametrize, read_json

TEXT = "bab dadad kok mum"


def test_a_discriminator_gives_the_probabilities_of_transformers(finished_run):
    networks = load_networks(str(finished_run / "discriminator"))
    assert networks.generator is None
    (sample,) = inspect_texts(networks, [TEXT])
    model = AutoModelForPreTraining.from_pretrained(finished_run / "discriminator")
    encoded = AutoTokenizer.from_pretrained(finished_run / "discriminator")(TEXT, return_tensors="pt")
    with torch.no_grad():
        expected = model(**encoded).logits.sigmoid()[0].tolist()
    assert sample.probabilities == approx(expected, abs=2e-6)
    assert networks.discriminator.config._attn_implementation == model.config._attn_implementation
    assert sample.shown == sample.original and "".join(sample.original) == f" [CLS] {TEXT} [SEP]"


def test_a_run_its_checkpoint_and_its_exported_networks_are_the_same_pair(finished_run):
    (of_run,) = inspect_texts(load_networks(str(finished_run)), [TEXT], seed=3, mlm_probability=0.5)
    joint = load_networks(str(finished_run / "checkpoint-12"))
    (of_checkpoint,) = inspect_texts(joint, [TEXT], seed=3, mlm_probability=0.5)
    masked_count = sum(token != masked for token, masked in zip(of_run.original, of_run.masked, strict=True))
    assert masked_count >= 3  # so that other masks would be seen
    assert of_run.masked == of_checkpoint.masked and of_run.shown == of_checkpoint.shown != of_run.original
    assert of_run.probabilities == approx(of_checkpoint.probabilities, abs=2e-6)
    (of_other_seed,) = inspect_texts(joint, [TEXT], seed=4, mlm_probability=0.5)
    assert of_other_seed.masked != of_run.masked
    named = load_networks(str(finished_run / "discriminator"), str(finished_run / "generator"))
    assert inspect_texts(named, [TEXT], seed=3, mlm_probability=0.5) == [of_run]
    for path in (finished_run, finished_run / "checkpoint-12"):  # the generator of a run or checkpoint
        named = load_networks(str(finished_run / "discriminator"), str(path))
        assert inspect_texts(named, [TEXT], seed=3, mlm_probability=0.5)[0].shown == of_run.shown


def test_an_exported_run_is_corrupted_as_in_its_training(finished_run, tmp_path):
    run = tmp_path / "run"
    for name in ("discriminator", "generator"):
        shutil.copytree(finished_run / name, run / name)
    (run / "config.yaml").write_text("mlm_probability: 0.9\nmlm_replacement_probability: 0.0\n")
    (sample,) = inspect_texts(load_networks(str(run)), ["bab dadad kok mum " * 2])
    assert sample.masked == sample.original  # every chosen token is kept
    (run / "config.yaml").write_text("mlm_probability: 0.9\nmlm_replacement_probability: 1.0\n")
    (sample,) = inspect_texts(load_networks(str(run)), ["bab dadad kok mum " * 2])
    assert sample.masked.count(" [MASK]") > 0.7 * len(sample.masked)  # nine tenths, without [CLS] and [SEP]


def test_a_generator_with_two_swapped_tokens_is_refused(finished_run, tmp_path):
    folder = shutil.copytree(finished_run / "generator", tmp_path / "other")
    (folder / "manifest.json").unlink()
    tokenizer = read_json(folder / "tokenizer.json")
    vocab = tokenizer["model"]["vocab"]
    *_, first, second = vocab
    vocab[first], vocab[second] = vocab[second], vocab[first]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with raises(UserError, match="other is no generator"):
        load_networks(str(finished_run), str(folder))


def test_a_bert_keeps_its_head_with_and_without_a_name_of_its_class(tmp_path, wordpiece_tokenizer):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    network = BertForPreTraining(BertConfig(vocab_size=len(wordpiece_tokenizer), **sizes))
    network.save_pretrained(tmp_path)
    wordpiece_tokenizer.save_pretrained(tmp_path)
    for architectures in (["BertForPreTraining"], None):
        config = read_json(tmp_path / "config.json")
        (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": architectures}))
        loaded = load_networks(str(tmp_path)).discriminator
        heads = (model.cls.predictions.transform.dense.weight for model in (loaded, network))
        assert torch.equal(*heads)  # drawn at random, so no new ones


def test_the_command_prints_every_text(finished_run, capsys):
    main([str(finished_run), TEXT, "kok"])
    printed = capsys.readouterr().out
    assert printed.count("P(replaced)") == 2 and printed.replace("·", "").count(f"[CLS] {TEXT} [SEP]") == 1


@parametrize(
    ("argv", "message"),
    [
        (["{run}/nothing", "a"], "nothing"),
        (["{run}", "a", "--mlm_probability", "1.5"], "--mlm_probability 1.5"),
        (["{run}", "a", "--generator", "{run}/discriminator"], "discriminator"),
    ],
)
def test_a_wrong_folder_share_or_generator_is_refused(finished_run, argv, message):
    with raises(UserError, match=message):
        main([word.format(run=finished_run) for word in argv])
