"""`from electra import ...`: a run in Python is the run of the command, and continues by itself."""

import copy
import json
import logging
import re
import shutil
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer, TrainingArguments

import electra
from docs.notebook import NOTEBOOK, execute
from electra import (
    ElectraForJointPretraining,
    ElectraPretrainingConfig,
    ElectraTrainer,
    ElectraTrainingArguments,
    SegmentArguments,
    load_tokenizer,
    tokenize_corpus,
)
from electra.core.errors import UserError
from electra.pretraining.run import main
from tests.conftest import refused
from tests.helpers import ROOT, read_json, run
from tests.pretraining.runs import flags, write_corpus

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
NETWORKS = {**SIZES, "embedding_size": 16, "max_position_embeddings": 32, "generator_size": 0.5}
TRAINING = {
    "max_steps": 8,
    "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 8,
    "learning_rate": 1e-3,
    "save_steps": 4,
    "disable_tqdm": True,
}
SEGMENTS = {"max_length": 16, "validation_fraction": 0.2, "max_eval_segments": 20}
"""Options of a tiny run, as those of a joint model, of its training and of its segments."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory, copying):
    """Text, and a folder with a tokenizer of it."""
    folder = tmp_path_factory.mktemp("door")
    text = write_corpus(folder / "corpus.txt")
    argv = [f"--train_file={text}", "--vocab_size=120", f"--output_dir={folder / 'tokenizer'}"]
    run("train_tokenizer.py", argv, folder, python=copying)
    return folder, text


def make_trainer(parts, output, **options):
    folder, text = parts
    tokenizer = load_tokenizer(str(folder / "tokenizer"))
    corpus = tokenize_corpus(text, tokenizer, cache_dir=folder / "cache")
    model = ElectraForJointPretraining.from_recipe("small", tokenizer, **NETWORKS)
    args = ElectraTrainingArguments(str(output), **{**TRAINING, **options})
    segments = SegmentArguments(**SEGMENTS)
    return ElectraTrainer(model=model, args=args, train_dataset=corpus, processing_class=tokenizer, segments=segments)


def train_run(parts, output):
    """The trainer of a whole run."""
    trainer = make_trainer(parts, output)
    trainer.train()
    return trainer


def weights(checkpoint):
    return load_file(checkpoint / "model.safetensors")


@pytest.mark.slow
def test_a_run_in_python_is_the_run_of_the_command(parts, tmp_path):
    folder, text = parts
    sizes = {**NETWORKS, **TRAINING, **SEGMENTS, "vocab_size": None}
    unset = dict.fromkeys(("warmup_steps", "logging_steps", "eval_steps", "save_total_limit"))
    argv = flags(tmp_path, train_file=text, tokenizer_path=folder / "tokenizer", **{**unset, **sizes})
    main(argv)
    trainer = make_trainer(parts, tmp_path / "python")
    trainer.train()
    ours, theirs = (weights(run / "checkpoint-8") for run in (tmp_path / "python", tmp_path / "output" / "run"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    logs = [
        json.loads((run / "checkpoint-8" / "trainer_state.json").read_text())["log_history"]
        for run in (tmp_path / "python", tmp_path / "output" / "run")
    ]
    losses = [[line["eval_loss"] for line in log if "eval_loss" in line] for log in logs]
    assert losses[0] == losses[1] and len(losses[0]) > 2


@pytest.mark.slow
def test_train_continues_where_the_folder_has_a_checkpoint(parts, tmp_path, caplog):
    train_run(parts, tmp_path / "whole")
    make_trainer(parts, tmp_path / "parts", max_steps=4, warmup_steps=1, lr_scheduler_type="constant").train()
    other = make_trainer(parts, tmp_path / "parts", warmup_steps=1, lr_scheduler_type="constant")
    with caplog.at_level("INFO", "electra"):
        other.train()
    assert f"resuming {tmp_path / 'parts' / 'checkpoint-4'}" in caplog.messages
    assert other.state.global_step == 8 and other.state.log_history[0]["step"] <= 4
    again = make_trainer(parts, tmp_path / "whole", max_steps=8)
    again.train()
    assert again.state.global_step == 8
    for resumed in (None, True):
        with pytest.raises(UserError, match="batch"):
            make_trainer(parts, tmp_path / "whole", per_device_train_batch_size=2).train(resumed)
    with pytest.raises(UserError, match="no checkpoint"):
        make_trainer(parts, tmp_path / "new").train(resume_from_checkpoint=True)


@pytest.mark.slow
def test_transformers_opens_the_networks_and_the_checkpoint_of_a_run(parts, tmp_path):
    whole = train_run(parts, tmp_path / "whole")
    whole.model.discriminator.save_pretrained(tmp_path / "mine")
    network = AutoModelForPreTraining.from_pretrained(tmp_path / "mine")
    assert torch.equal(network.electra.embeddings.word_embeddings.weight.cpu(),
                       whole.model.discriminator.electra.embeddings.word_embeddings.weight.cpu())  # fmt: skip
    assert AutoModel.from_pretrained(tmp_path / "mine").config.hidden_size == 32
    checkpoint = tmp_path / "whole" / "checkpoint-8"
    assert isinstance(AutoConfig.from_pretrained(checkpoint), ElectraPretrainingConfig)
    for auto_class in (AutoModel, AutoModelForPreTraining):
        joint = auto_class.from_pretrained(checkpoint)
        ours, theirs = (one.state_dict() for one in (whole.model, joint))
        assert isinstance(joint, ElectraForJointPretraining) and ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name].cpu(), theirs[name]) for name in ours)


@pytest.mark.slow
def test_finish_run_exports_the_networks_and_measures_them(parts, tmp_path):
    metrics = electra.finish_run(train_run(parts, tmp_path / "whole"))
    assert (tmp_path / "whole" / "discriminator" / "model.safetensors").is_file()
    assert json.loads((tmp_path / "whole" / "metrics.json").read_text())["held_out"] == metrics["held_out"]
    assert metrics["held_out"].keys() >= {"trained"}


@pytest.mark.slow
def test_a_run_is_quiet_on_request(parts, tmp_path, capsys):
    logging.getLogger("electra").handlers = []
    logging.getLogger("electra").setLevel(logging.NOTSET)  # as in a program that has set up no logging
    try:
        for level, is_quiet in (("passive", False), ("warning", True)):
            make_trainer(parts, tmp_path / level, max_steps=2, eval_strategy="no", log_level=level).train()
            assert (capsys.readouterr().out == "") == is_quiet
    finally:
        logging.getLogger("electra").handlers = []


@pytest.mark.slow
def test_the_block_of_the_readme_runs(tmp_path, monkeypatch):
    """Word for word, but for the size of the vocabulary and the number of steps and epochs."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import electra\n.*?)```", readme, flags=re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texte").mkdir()
    write_corpus(tmp_path / "texte" / "a.txt")
    write_reviews(tmp_path / "abschnitte.csv")
    for old, new in (
        ("vocab_size=4096", "vocab_size=120"),
        ("max_steps=250", "max_steps=2, per_device_train_batch_size=2"),
        ('"abschnitte.csv"', '"abschnitte.csv", num_train_epochs=1'),
    ):
        assert old in block
        block = block.replace(old, new)
    exec(compile(block, "README.md", "exec"), {})
    assert AutoModel.from_pretrained("output/mine/discriminator").config.model_type == "modernbert"
    assert AutoTokenizer.from_pretrained("output/mine/discriminator").mask_token_id is not None


@pytest.mark.slow
def test_the_examples_run(parts, tmp_path, copying):
    _, text = parts
    write_reviews(tmp_path / "reviews.csv")
    for script, options in (
        ("electra_in_a_page.py", [text, "--steps=2", "--output=page"]),
        ("pretrain.py", [text, "--steps=3", "--vocab_size=120", "--output=mine"]),
        ("fine_tune.py", ["mine", "reviews.csv", "bab dad", "--seeds=1", "--epochs=1", "--output=tuned"]),
    ):
        said, _ = run(f"examples/{script}", options, tmp_path, python=copying)
    assert "accuracy: " in said and "bab dad  ->  " in said and "most suspicious: '" in said
    (tmp_path / "prices.csv").write_text("text,label\n" + "".join(f"bab {n} kok,{n}.5\n" for n in range(30)))
    options = ["mine", "prices.csv", "bab dad", "--seeds=1", "--epochs=1", "--output=tuned"]
    said, _ = run("examples/fine_tune.py", options, tmp_path, python=copying)  # a number has no probability
    assert "spearman: " in said and "bab dad  ->  " in said
    for network in ("page", "mine/discriminator"):
        AutoModel.from_pretrained(tmp_path / network)


def write_reviews(path):
    path.write_text("text,label\n" + "".join(f"bab {n} kok,good\nmum {n},bad\n" for n in range(15)))


def test_the_outputs_of_the_notebook_are_kept():
    cells = [cell for cell in read_json(NOTEBOOK)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert all(cell["outputs"] for cell in cells[1:])
    kinds = set().union(*kinds_of_outputs(read_json(NOTEBOOK)))
    assert {"image/png", "text/html", "stdout"} <= kinds and "stderr" not in kinds
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    """In an empty folder, with fewer steps, seeds and epochs."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    text = NOTEBOOK.read_text(encoding="utf-8")
    for old, new in (
        ("max_steps=1200", "max_steps=4"),
        ("eval_steps=200", "eval_steps=2"),
        ("num_seeds=2", "num_seeds=1"),
        ("num_train_epochs=3", "num_train_epochs=0.02"),
    ):
        assert old in text
        text = text.replace(old, new)
    notebook = execute(text, tmp_path)
    assert [*kinds_of_outputs(notebook)] == [*kinds_of_outputs(read_json(NOTEBOOK))]
    assert (tmp_path / "output" / "notebook" / "checkpoint-4").is_dir()


def kinds_of_outputs(notebook):
    """The kinds of what each code cell behind the imports shows: streams by name, or types of data."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in cells[1:]:
        yield {kind for output in cell["outputs"] for kind in output.get("data", [output.get("name")])}


def test_given_means_given(parts, tmp_path):
    """Also a value that is the default; and epochs without steps are epochs."""
    args = make_trainer(parts, tmp_path / "steps", logging_steps=100, max_steps=10).args
    assert (args.logging_steps, args.eval_steps, args.max_steps) == (100, 1, 10)
    options = {name: value for name, value in TRAINING.items() if name != "max_steps"}
    by_epochs = ElectraTrainingArguments(tmp_path / "epochs", num_train_epochs=2, **options)
    assert by_epochs.max_steps == -1 and ElectraTrainingArguments("a").max_steps == 1_000_000
    assert ElectraTrainingArguments("a", num_train_epochs=2, max_steps=3).max_steps == 3


@pytest.mark.parametrize("options", [{"max_steps": "many"}, {"max_steps": 1e5}, {"bf16": 1}, {"output_dir": 5}])
def test_an_argument_of_another_type_is_named(options):
    with pytest.raises(UserError, match=min(options)):
        ElectraTrainingArguments(**options)


def test_what_is_not_a_corpus_is_named(parts, tmp_path):
    folder, text = parts
    with pytest.raises(TypeError, match="dataset_nam"):
        tokenize_corpus(text, load_tokenizer(str(folder / "tokenizer")), dataset_nam="wikitext")
    with pytest.raises(TypeError, match="vocabulary_size"):
        electra.train_tokenizer(text, vocabulary_size=200)
    trainer = make_trainer(parts, tmp_path / "run")
    with pytest.raises(UserError, match="processing_class"):
        ElectraTrainer(model=trainer.model, args=trainer.args, train_dataset=trainer.data.cache)


ROWS = [{"text": "a", "label": "b"}]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: electra.fine_tune(42, ROWS), "model is 42"),
        (lambda: electra.fine_tune("tiny-en", ROWS, task=3), "no task 3"),
        (lambda: electra.predict(None, ["a"]), "model is None"),
        (lambda: electra.tokenize_corpus(str(ROOT / "README.md"), None), "tokenizer is None"),
        (lambda: electra.train_tokenizer([]), "files is empty"),
        (lambda: electra.load_tokenizer(3), "tokenizer_path is 3"),
        (lambda: electra.replaced_token_probabilities(3, "tiny-en"), "texts is 3"),
        (lambda: electra.replaced_token_probabilities("a", None), "discriminator is None"),
        (lambda: ElectraForJointPretraining.from_recipe("tiny", 3), "tokenizer is 3"),
        (lambda: ElectraTrainer("tiny", None, "a.txt"), "model is 'tiny'"),
    ],
)
def test_an_argument_of_another_kind_is_named_with_the_right_form(call, named):
    with pytest.raises(UserError, match=f"{named}.*(; give |; the tasks are )"):
        call()


def test_a_tokenizer_can_be_named_by_its_folder(parts, tmp_path):
    folder, text = parts
    corpus = tokenize_corpus(text, folder / "tokenizer", cache_dir=folder / "cache")
    model = ElectraForJointPretraining.from_recipe("small", str(folder / "tokenizer"), **NETWORKS)
    args = ElectraTrainingArguments(str(tmp_path / "run"), **TRAINING)
    trainer = ElectraTrainer(model, args, corpus, processing_class=folder / "tokenizer")
    assert len(trainer.processing_class) == model.config.discriminator.vocab_size


def test_arguments_of_the_trainer_that_do_not_fit_are_named(parts, tmp_path):
    trainer = make_trainer(parts, tmp_path / "run")
    corpus = trainer.data.cache
    given = {
        "model": trainer.model,
        "args": ElectraTrainingArguments(tmp_path / "other", **TRAINING),
        "train_dataset": corpus,
        "processing_class": trainer.processing_class,
        "segments": SegmentArguments(**SEGMENTS),
    }
    for name, value, named in (
        ("model", copy.deepcopy(trainer.model).bfloat16(), "bfloat16"),
        ("args", TrainingArguments(str(tmp_path / "other")), "args is"),
        ("train_dataset", "a.txt", "train_dataset is 'a.txt'"),
        ("eval_dataset", {"new": "a.txt"}, "eval_dataset is 'a.txt'"),
        ("segments", SEGMENTS, "segments is"),
        ("eval_dataset", {"a b": corpus}, "'a b'"),
        ("eval_dataset", {"mlm": corpus}, "mlm"),
        ("segments", SegmentArguments(max_length=64), "64 is more than the 32 positions"),
        ("segments", SegmentArguments(validation_file=["held_out.txt"]), "eval_dataset"),
    ):
        assert named in refused(lambda: ElectraTrainer(**{**given, name: value}))  # noqa: B023
    assert not (tmp_path / "other").exists()
    assert ElectraTrainer(**{**given, "segments": None}).data.segments.max_length == 32


def test_options_that_a_program_does_not_use_are_warned_of(parts, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="electra")  # a program that has set up logging keeps it
    make_trainer(parts, tmp_path / "run", budget="2h", label_smoothing_factor=0.1)
    of_command, of_nothing = (message for message in caplog.messages if "no effect" in message)
    assert "--budget" in of_command and "--label_smoothing_factor" in of_nothing


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"objective": "mask"}, "objective"),
        ({"tie": "everything"}, "tie"),
        ({"mlm_probability": 2}, "mlm_probability"),
        ({"mlm_probability": "a"}, "mlm_probability"),
        ({"mlm_random_probability": 0.3}, "mlm_random_probability"),
        ({"sampling_temperature": 0}, "sampling_temperature"),
        ({"discriminator_weight": -1}, "discriminator_weight"),
        ({"generator_steps": 2.5}, "generator_steps"),
        ({"generator": 3}, "configuration"),
        ({"discriminator": {"model_type": "nope"}}, "nope"),
    ],
)
def test_values_of_a_joint_model_out_of_their_range_are_named(values, named):
    network = {"model_type": "electra", **SIZES}
    assert named in refused(
        lambda: ElectraPretrainingConfig(**{"generator": network, "discriminator": network, **values})
    )


@pytest.mark.slow
def test_a_joint_model_is_loaded_from_a_run_and_no_other_network_in_its_place(parts, tmp_path):
    trainer = make_trainer(parts, tmp_path / "run")
    trainer.train()
    expected = trainer.model.state_dict()
    for path in (tmp_path / "run", str(tmp_path / "run" / "checkpoint-8")):
        loaded = ElectraForJointPretraining.from_pretrained(path).state_dict()
        assert all(torch.equal(value, loaded[name]) for name, value in expected.items())
    trainer.model.discriminator.save_pretrained(tmp_path / "network")
    assert "electra" in refused(lambda: ElectraForJointPretraining.from_pretrained(tmp_path / "network"))
    assert "ElectraConfig" in refused(lambda: ElectraForJointPretraining(trainer.model.discriminator.config))


def test_tokens_that_a_document_does_not_have_are_refused(parts, tmp_path):
    corpus = make_trainer(parts, tmp_path / "run").data.cache
    length = int(corpus.lengths[1])
    assert len(corpus.tokens(1, 0, length)) == length
    for document, start, count in ((1, 0, length + 1), (1, -1, 2), (1, 2, -1), (-1, 0, 1)):
        assert "tokens" in refused(lambda: corpus.tokens(document, start, count))  # noqa: B023


def test_an_option_that_does_not_exist_is_answered_with_one_that_does():
    for make in (lambda: ElectraTrainingArguments("a", max_step=3), lambda: SegmentArguments(max_step=3)):
        with pytest.raises(TypeError, match="max_step"):
            make()


def test_a_tokenizer_of_another_text_is_refused(parts, tmp_path):
    trainer = make_trainer(parts, tmp_path / "run")
    other = electra.train_tokenizer(parts[1], cache_dir=tmp_path / "cache", vocab_size=60)
    args = ElectraTrainingArguments(tmp_path / "other", **TRAINING)
    cache = trainer.data.cache
    assert "another tokenizer" in refused(lambda: ElectraTrainer(trainer.model, args, cache, processing_class=other))
    model = ElectraForJointPretraining.from_recipe("small", other, **NETWORKS)
    tokenizer = trainer.processing_class
    assert "same tokenizer" in refused(lambda: ElectraTrainer(model, args, cache, processing_class=tokenizer))


def test_a_corrupted_test_set_is_evaluated_in_a_program(parts, tmp_path):
    trainer = make_trainer(parts, tmp_path / "run")
    missing = SegmentArguments(**SEGMENTS, eval_corruption=str(tmp_path / "testset"))
    args = ElectraTrainingArguments(tmp_path / "other", **TRAINING)
    tokenizer = trainer.processing_class
    make = lambda: ElectraTrainer(  # noqa: E731
        trainer.model, args, trainer.data.cache, processing_class=tokenizer, segments=missing
    )
    assert "testset" in refused(make)


@pytest.mark.slow
def test_no_run_continues_from_another_one_or_overwrites_its_checkpoints(parts, tmp_path):
    make_trainer(parts, tmp_path / "first").train()
    checkpoint = tmp_path / "first" / "checkpoint-8"
    before = weights(checkpoint)
    other = {"per_device_train_batch_size": 2, "max_steps": 12}
    for given, named in (
        (checkpoint, "of another run"),
        (str(checkpoint), "of another run"),
        (tmp_path / "none", "nothing to resume"),
    ):
        trainer = make_trainer(parts, tmp_path / "second", **other)
        assert named in refused(lambda: trainer.train(given))  # noqa: B023
    again = make_trainer(parts, tmp_path / "first", max_steps=9)
    assert "overwrite" in refused(lambda: again.train(False))
    assert "4 segments per step" in refused(
        lambda: make_trainer(parts, tmp_path / "first", **other).train(str(checkpoint))
    )
    assert all(torch.equal(value, before[name]) for name, value in weights(checkpoint).items())
    again.train(checkpoint)
    assert again.state.global_step == 9
    electra.finish_run(again)
    for path in (tmp_path / "first").glob("checkpoint-*"):
        shutil.rmtree(path)
    for name in ("metrics.json", "discriminator", "generator"):
        assert name in refused(lambda: make_trainer(parts, tmp_path / "first").train())
        (tmp_path / "first" / name).rename(tmp_path / name)


@pytest.mark.parametrize("value", [None, 5, {"a": 1}, ["a.txt", 5], b"a.txt", []])
def test_paths_of_another_type_are_named(parts, value):
    tokenizer = parts[0] / "tokenizer"
    assert refused(lambda: electra.train_tokenizer(value)).startswith("files is ")
    assert refused(lambda: tokenize_corpus(value, tokenizer)).startswith("files is ")


def test_folders_and_seeds_of_another_type_are_named(parts):
    folder, _ = parts
    for seed in ("a", None, -1, True, 0.5):
        assert "seed" in refused(
            lambda: ElectraForJointPretraining.from_recipe("tiny", folder / "tokenizer", seed=seed)  # noqa: B023
        )


def test_the_package_is_imported_at_once():
    code = """
import sys, time
started = time.perf_counter()
import electra
seconds = time.perf_counter() - started
electra.RECIPES
assert "torch" not in sys.modules and "transformers" not in sys.modules
assert {"ElectraTrainer", "load_tokenizer"} <= set(dir(electra))
print(seconds)
"""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert float(done.stdout) < min(0.2, time.perf_counter() - started)
    for name in electra.__all__:
        assert getattr(electra, name).__doc__, name
    with pytest.raises(AttributeError, match="ElectraTrainer"):
        electra.ElectraTrayner  # noqa: B018
