"""A fixed corrupted test set: its labels, its bytes, who may use it, and that it does not depend on the run."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from pytest import approx
from safetensors.numpy import load_file, save_file
from sklearn.metrics import roc_auc_score
from transformers import AutoModelForPreTraining

from electra.base.files import write_json
from electra.core.objectives import OBJECTIVES
from electra.pretraining.run import main
from electra.pretraining.testset import main as make_set
from electra.pretraining.testset import read_test_set
from electra.report.metrics import make_panels
from electra.report.runs import read_run
from electra.tokenizers.load import load_tokenizer
from tests.conftest import refused, refused_command
from tests.core.helpers import JUDGES
from tests.core.test_joint_losses import DISCRIMINATOR_LOSSES
from tests.helpers import read_json
from tests.pretraining.runs import WORDS, flags, history, make, write_corpus

pytestmark = pytest.mark.slow

QUICK = {"max_steps": 2, "eval_steps": 1, "save_steps": 2, "vocab_size": None, "hidden_size": 16}


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    """Eight documents of several segments, and two that do not fill one."""
    path = write_corpus(tmp_path_factory.mktemp("text") / "held_out.txt", 8, seed=5)
    with path.open("a") as file:
        file.write(f"\n{' '.join(WORDS[:2])}\n\n{' '.join(WORDS[2:5])}\n")
    return path


@pytest.fixture(scope="module")
def fixed_set(finished_run, held_out):
    """A test set of that text, which the generator of the finished run has corrupted."""
    path = held_out.parent / "fixed.safetensors"
    make_set(command(finished_run, held_out, path))
    return path


def command(run, text, output, *more):
    """The command line that makes a test set of a text with the generator of a run."""
    return [f"--pretrain_path={run}", f"--validation_file={text}", f"--output_file={output}", *more]


def test_replaced_tokens_are_those_that_differ(fixed_set, finished_run):
    arrays = load_file(fixed_set)
    originals, corrupted, is_real = (arrays[name] for name in ("original_ids", "corrupted_ids", "attention_mask"))
    assert originals.shape[1] == 16  # as of the run
    is_replaced = originals != corrupted
    vocabulary = read_json(finished_run / "tokenizer" / "tokenizer.json")["model"]["vocab"]
    special = [vocabulary[token] for token in ("[PAD]", "[CLS]", "[SEP]")]
    assert not is_replaced[np.isin(originals, special)].any()
    assert not is_real.all() and (originals[is_real == 0] == vocabulary["[PAD]"]).all()
    replaced = is_replaced.sum() / is_real.sum()
    assert 0.08 < replaced < 0.17  # of 15 %, an untrained generator's sample is rarely the original


def test_frequencies_judge_real_tokens_alone(fixed_set, finished_run, held_out):
    arrays = load_file(fixed_set)
    tokenizer = load_tokenizer(str(finished_run))
    ids = tokenizer(held_out.read_text(), add_special_tokens=False)["input_ids"]
    counts = 1 + np.bincount(ids, minlength=len(tokenizer))
    is_real = arrays["attention_mask"] == 1
    corrupted = arrays["corrupted_ids"][is_real]
    is_replaced = (arrays["corrupted_ids"] != arrays["original_ids"])[is_real]
    scores = np.where(np.isin(corrupted, tokenizer.all_special_ids), 0.0, -np.log(counts / counts.sum())[corrupted])
    assert read_test_set(str(fixed_set)).frequencies_auc == approx(roc_auc_score(is_replaced, scores))


def test_the_seed_decides_the_bytes_of_a_test_set(fixed_set, finished_run, held_out, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    files = [tmp_path / f"{number}.safetensors" for number in range(3)]
    for file, more in zip(files, ([], ["--seed=7"], ["--max_segments=3", "--max_length=12"]), strict=True):
        make_set(command(finished_run, held_out, Path("~") / file.name, *more))
    assert files[0].read_bytes() == fixed_set.read_bytes() != files[1].read_bytes()
    assert load_file(files[2])["original_ids"].shape == (3, 12)


def test_the_metrics_are_those_of_plain_transformers(fixed_set, finished_run, folder):
    arrays = load_file(fixed_set)
    model = AutoModelForPreTraining.from_pretrained(finished_run / "discriminator").eval()
    with torch.no_grad():
        logits = model(
            torch.from_numpy(arrays["corrupted_ids"]).long(),
            attention_mask=torch.from_numpy(arrays["attention_mask"]).long(),
            token_type_ids=torch.from_numpy(arrays["token_type_ids"]).long(),
        ).logits
    is_real = torch.from_numpy(arrays["attention_mask"]).bool()
    labels = torch.from_numpy(arrays["original_ids"] != arrays["corrupted_ids"])
    generator_losses = set()
    for number, objective in enumerate(JUDGES):
        trainer = make(
            folder,
            experiment_name=objective,
            objective=objective,
            init_discriminator=finished_run / "discriminator",
            init_from_generator=False,
            eval_corruption=fixed_set,
            vocab_size=None,
            bf16=False,
            seed=number,
            generator_size=[0.5, 1.0][number % 2],
            per_device_eval_batch_size=[8, 3][number % 2],
        )
        metrics = trainer.evaluate()
        generator_losses.add(metrics["eval_generator_loss"])
        loss = DISCRIMINATOR_LOSSES[OBJECTIVES[objective].loss]
        expected = {
            "discriminator_loss": loss(logits, labels.float(), is_real, trainer.model.config)[is_real].mean(),
            "replaced_rate": labels.sum() / is_real.sum(),
            "tokens": is_real.sum(),
        }
        for name, value in expected.items():
            assert metrics[f"eval_fixed_{name}"] == approx(value.item(), rel=1e-5), objective
        # In other batches rounding swaps a few pairs of nearly equal logits.
        auc = roc_auc_score(labels[is_real], logits[is_real])
        assert metrics["eval_fixed_discriminator_auc"] == approx(auc, abs=2e-5), objective
        assert ("eval_fixed_discriminator_accuracy" in metrics) == OBJECTIVES[objective].has_threshold
    assert len(generator_losses) == len(JUDGES)


def test_a_run_measures_the_test_set_at_each_evaluation(fixed_set, finished_run, held_out, folder, capsys):
    options = {**QUICK, "tokenizer_path": finished_run / "tokenizer", "validation_file": held_out}
    main(flags(folder, **options, eval_corruption=fixed_set))
    printed = capsys.readouterr().out
    run = folder / "output" / "run"
    assert "fixed: trained" in printed and "fixed:  discriminator" in printed
    logs = [line for line in history(run / "checkpoint-2") if "eval_loss" in line]
    assert [line["step"] for line in logs if "eval_fixed_discriminator_auc" in line] == [0, 1, 2]
    columns = read_json(run / "metrics.json")["held_out"]
    assert list(columns)[-3:] == ["fixed: untrained", "fixed: frequencies", "fixed: trained"]
    baseline = read_test_set(str(fixed_set)).frequencies_auc
    assert columns["fixed: frequencies"] == {"discriminator_auc": baseline} and 0 < baseline < 1
    assert columns["fixed: trained"]["discriminator_auc"] == logs[-1]["eval_fixed_discriminator_auc"]
    panels = make_panels([read_run(run)])
    assert "held-out: fixed" in {curve.kind for curves in panels.values() for curve in curves}
    assert not any(name.startswith("fixed") for name in panels)
    assert "fixed: trained</th>" in (run / "report.html").read_text()
    other = folder / "other.safetensors"
    make_set(command(finished_run, held_out, other, "--seed=1"))
    main([f"--resume_from_checkpoint={run}", "--max_steps=3", f"--eval_corruption={other}"])
    (change,) = read_json(run / "metrics.json")["plan"]["changes"]
    assert "other held-out text" in change
    other.unlink()
    make_set(command(finished_run, held_out, other, "--seed=2"))  # another set under the same name
    main([f"--resume_from_checkpoint={run}", "--max_steps=4"])
    _, change = read_json(run / "metrics.json")["plan"]["changes"]
    assert "other held-out text" in change
    assert "fixed: untrained" not in read_json(run / "metrics.json")["held_out"]


def test_a_file_that_is_no_test_set_is_refused(fixed_set, tmp_path):
    arrays = load_file(fixed_set)
    save_file(arrays, tmp_path / "a.safetensors")  # without the name of the tokenizer
    save_file({**arrays, "frequencies_auc": np.zeros(2)}, tmp_path / "b.safetensors", metadata={"tokenizer": "any"})
    for name in ("a", "b"):
        assert "cannot be read" in refused(lambda name=name: read_test_set(str(tmp_path / f"{name}.safetensors")))


def test_a_test_set_that_does_not_fit_the_run_is_refused(fixed_set, finished_run, folder):
    fixed = {"eval_corruption": fixed_set}
    assert "tokenizer" in refused(lambda: make(folder, **fixed, vocab_size=100))
    of_set = {**fixed, "tokenizer_path": finished_run / "tokenizer", "vocab_size": None}
    assert "--max_length 12" in refused(lambda: make(folder, **of_set, max_length=12))


def test_a_test_set_that_a_run_cannot_judge_has_no_effect(fixed_set, finished_run, folder, caplog):
    of_set = {"eval_corruption": fixed_set, "tokenizer_path": finished_run / "tokenizer", "vocab_size": None}
    for objective in OBJECTIVES.keys() - JUDGES:
        caplog.clear()
        make(folder, **of_set, objective=objective)
        assert f"no effect: --eval_corruption (--objective {objective}" in caplog.text
    caplog.clear()
    make(folder, **of_set, validation_fraction=0)
    assert "no effect: --eval_corruption" in caplog.text


def test_a_wrong_test_set_is_refused_in_one_line(fixed_set, finished_run, folder, capsys):
    content = fixed_set.read_bytes()
    weights = (finished_run / "discriminator" / "model.safetensors").read_bytes()
    for name, wrong_content in {"missing": None, "cut": content[:-9], "other": weights, "empty": b""}.items():
        path = folder / f"{name}.safetensors"
        if wrong_content is not None:
            path.write_bytes(wrong_content)
        assert path.name in refused_command(main, flags(folder, eval_corruption=path), capsys)


def test_a_test_set_that_cannot_be_made_is_refused_in_one_line(fixed_set, finished_run, folder, capsys, monkeypatch):
    for flag in ("--seed=-1", "--max_segments=0", "--max_length=99", "--mlm_probability=1"):
        argv = command(finished_run, folder / "corpus.txt", folder / "a.safetensors", flag)
        assert flag.partition("=")[0] in refused_command(make_set, argv, capsys)
    weights = (finished_run / "discriminator" / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights)
    for output in (folder / "corpus.txt", folder / "model.safetensors"):  # nothing is overwritten
        assert "--output_file" in refused_command(make_set, command(finished_run, fixed_set, output), capsys)
    causal = shutil.copytree(finished_run / "generator", folder / "causal")
    (causal / "manifest.json").unlink()
    config = read_json(causal / "config.json")
    write_json({**config, "has_causal_attention": True}, causal / "config.json")
    for network in (finished_run / "discriminator", causal):
        argv = command(network, folder / "corpus.txt", folder / "a.safetensors")
        assert "has no generator" in refused_command(make_set, argv, capsys)
    monkeypatch.chdir(folder)
    Path("config.yaml").write_text("max_length: 4\n")  # of no run
    line = refused_command(make_set, command(Path("nobody"), folder / "corpus.txt", Path("a.safetensors")), capsys)
    assert "nobody" in line and "--max_length" not in line
