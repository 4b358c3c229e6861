"""Tagging without training: labels and windows of files, the loss of a step, the head."""

from dataclasses import replace

import torch
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from electra.finetuning.config import resolve_hyperparameters
from electra.finetuning.runner import open_encoder
from electra.report.results import read_results
from electra.tasks.tagging.data import load_tagging_splits
from electra.tasks.tagging.task import (
    EncoderWithTagger,
    main,
    open_tagging_task,
    parse_tagging_arguments,
    word_loss,
)
from tests.conftest import refused
from tests.finetuning.test_heads import make_encoder
from tests.tasks.tagging.files import flags


def test_options_reach_labels_and_windows(files):
    for scheme, prefixes in (("auto", "BI"), ("bioes", "BIES")):
        args = parse_tagging_arguments(flags(files, scheme=scheme, max_length=8))
        encoder = open_encoder(args)
        data = open_tagging_task(args).load(encoder.tokenizer, resolve_hyperparameters(args, "names", encoder))
        assert data.labels == ["O", *(f"{prefix}-{kind}" for kind in ("LOC", "PER") for prefix in prefixes)]
        assert data.train.lengths.max() == 8 and data.examples == {"train": 100, "dev": 12}
        used = {data.labels[label] for row in data.train for label in row["labels"]}
        # Names have at most two words, of which BIOES has no inner ones.
        assert used == {tag for tag in data.labels if scheme == "auto" or tag[0] != "I"}


def test_the_loss_is_the_mean_over_words_or_their_part_of_a_step():
    logits = torch.randn(2, 3, 5)
    labels = torch.tensor([[1, 2, -100], [0, -100, -100]])
    mean = cross_entropy(torch.stack([logits[0, 0], logits[0, 1], logits[1, 0]]), torch.tensor([1, 2, 0]))
    assert_close(word_loss(logits, labels, None), mean)
    assert_close(word_loss(logits, labels, 6), mean / 2)


def test_words_of_one_label_are_refused(tmp_path):
    (tmp_path / "names").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "names" / f"{split}.txt").write_text("Ann O\nran O\n")
    args = parse_tagging_arguments(flags(tmp_path))
    assert "all labels are 'O'" in refused(lambda: open_tagging_task(args))


def test_the_head_reads_the_words_first_tokens_in_float32():
    tagger = EncoderWithTagger(make_encoder(), 3, 0.25).eval()
    assert {layer.p for layer in tagger.head.modules() if isinstance(layer, torch.nn.Dropout)} == {0.25}
    ids = torch.tensor([[2, 11, 12, 13, 3], [2, 14, 3, 0, 0]])
    positions = torch.tensor([[1, 3], [1, 0]])
    mask = (ids > 0).long()
    with torch.autocast("cpu", torch.bfloat16):
        logits = tagger(ids, mask, positions)
        hidden = tagger.encoder(input_ids=ids, attention_mask=mask)[0].float()
    layer = tagger.head.model.classifier
    assert_close(logits[0], layer(hidden[0, [1, 3]]), rtol=1e-6, atol=1e-6)
    assert_close(logits[1, 0], layer(hidden[1, 1]), rtol=1e-6, atol=1e-6)


def test_features_that_an_encoder_does_not_have_are_refused(files):
    untrained = {"features": "concat_4", "pretrain_path": None, "from_scratch": files / "encoder"}
    for options, named in ((untrained, "--pretrain_path"), ({"features": "last", "left_to_right": True}, "_to_right")):
        args = parse_tagging_arguments(flags(files, **options))
        message = refused(lambda args=args: open_tagging_task(args))
        assert "--features" in message and named in message
    args = parse_tagging_arguments(flags(files, features="mix_4"))
    encoder = open_encoder(args)
    task = open_tagging_task(args)
    tuning = resolve_hyperparameters(args, "names", encoder)
    data = task.load(encoder.tokenizer, tuning)
    assert "the encoder has 1;" in refused(lambda: task.prepare(encoder.model, tuning, data))


def test_the_words_of_a_row_read_their_first_tokens(files):
    args = parse_tagging_arguments(flags(files, features="last", max_length=8, bf16=False))
    encoder = open_encoder(args)
    task = open_tagging_task(args)
    tuning = resolve_hyperparameters(args, "names", encoder)
    assert (args.settings()["features"], task.kind.name) == ("last", "tagging")
    data = task.prepare(encoder.model, tuning, task.load(encoder.tokenizer, tuning))
    encoder.model.eval()
    for number in (0, 5, 60):
        row = data.train[number]
        with torch.no_grad():
            hidden = encoder.model(torch.tensor(row["input_ids"][None]))[0][0]
        assert_close(torch.tensor(row["features"][:, 0]), hidden[row["positions"]], rtol=1e-4, atol=1e-5)


def test_an_evaluation_of_the_papers_defaults_goes_on_with_them(files, tmp_path):
    """As those of earlier versions, which had no others for narrow encoders; a frozen encoder keeps the paper's."""
    paper = {"learning_rate": 3e-4, "layerwise_lr_decay": 0.8, "num_train_epochs": 3.0}
    narrow = {"learning_rate": 1e-3, "layerwise_lr_decay": 1.0, "num_train_epochs": 20.0}
    for name, command_options, expected in (
        ("begun", {**paper, "num_seeds": 1}, paper),
        ("begun", {"num_seeds": 2}, paper),
        ("new", {"num_seeds": 1}, narrow),
    ):
        options = {"num_train_epochs": None, "bf16": False, "max_length": 16, **command_options}
        main(flags(files, experiment_name=name, output_dir=tmp_path, **options))
        results = read_results(tmp_path / name / "results.jsonl")
        assert len(results) == command_options["num_seeds"]
        assert all({option: result.settings[option] for option in expected} == expected for result in results)
    assert open_tagging_task(parse_tagging_arguments(flags(files, features="last"))).texts is None


def test_held_out_sentences_leave_each_label_to_training(files, tmp_path, caplog):
    lines = [f"Rome B-LOC\nran{number} O\n" for number in range(59)]
    (tmp_path / "train.txt").write_text("\n".join([*lines, "Ann B-PER\n"]))
    args = parse_tagging_arguments(flags(files, train_file=tmp_path / "train.txt", validation_file=None))
    assert args.settings()["validation_fraction"] == 0.1 and args.settings()["eval_seed"] == 0
    for seed in range(20):
        options = replace(args.options, eval_seed=seed)
        splits = load_tagging_splits(options)
        assert 5 <= len(splits["dev"]) <= 6 and len(splits["dev"]) + len(splits["train"]) == 60
        assert ["B-PER"] in [sentence.labels for sentence in splits["train"]]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert "validation_fraction" not in parse_tagging_arguments(flags(files)).settings()


def test_a_development_set_that_is_the_training_file_is_said(files, caplog):
    train = files / "names" / "train.txt"
    load_tagging_splits(parse_tagging_arguments(flags(files, validation_file=train)).options)
    assert "100 of 100 sentences of dev are also in the training data" in caplog.text
