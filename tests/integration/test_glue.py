"""run_glue.py as a user runs it: in its own process, killed and taken up again, from pre-training to a score."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase

import run_pretraining
from electra.report.results import read_results
from tests.finetuning.commands import ENVIRONMENT, ROOT, run, start
from tests.pretraining.runs import flags as pretraining_flags
from tests.pretraining.runs import write_corpus
from tests.tasks.glue.files import flags, write_encoder, write_glue


def test_killed_in_the_second_task_and_started_again_it_ends_in_the_same_file(
    tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write_glue(tmp_path / "glue", "CoLA", "RTE", "STS-B")
    options = {"tasks": ["cola", "stsb", "rte"], "task_overrides": '{"stsb": {"num_train_epochs": 150}}'}
    argv = [word for word in flags(tmp_path, **options) if not word.startswith("--num_train_epochs")]
    run("run_glue.py", [*argv, "--experiment_name=undisturbed"], tmp_path)
    expected = (tmp_path / "output" / "undisturbed" / "results.jsonl").read_bytes()
    assert len(expected.splitlines()) == 6

    killed = start("run_glue.py", [*argv, "--experiment_name=killed"], tmp_path)
    results = tmp_path / "output" / "killed" / "results.jsonl"
    while not (results.is_file() and len(results.read_bytes().splitlines()) == 2):  # CoLA is done
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    time.sleep(0.3)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    left = results.read_bytes()
    assert len(left.splitlines()) in (2, 3)  # in STS-B, or just behind its first run

    out, _ = run("run_glue.py", [*argv, "--experiment_name=killed"], tmp_path)
    assert "CoLA" not in out.split("percent")[0] and f"{len(left.splitlines())} more are done" in out
    assert results.read_bytes() == expected


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real tiny pre-training run in output/run."""
    folder = tmp_path_factory.mktemp("pretrained")
    write_corpus(folder / "corpus.txt")
    run_pretraining.main(pretraining_flags(folder))
    write_glue(folder / "glue", "CoLA")
    return folder


def test_a_run_its_checkpoint_and_its_export_are_the_same_discriminator(pretrained: Path) -> None:
    outputs = []
    for number, path in enumerate(("run", "run/checkpoint-12", "run/discriminator")):
        options = {"pretrain_path": f"output/{path}", "tasks": ["cola"], "max_length": None, "num_seeds": 1}
        out, _ = run("run_glue.py", flags(pretrained, experiment_name=f"same-{number}", **options), pretrained)
        outputs.append(read_results(pretrained / "output" / f"same-{number}" / "results.jsonl")[0])
        assert "ElectraModel" in out
    assert len({str(result._replace(model="")) for result in outputs}) == 1
    generator = {"pretrain_path": "output/run/generator", "tasks": ["cola"], "num_seeds": 1}
    run("run_glue.py", flags(pretrained, experiment_name="generator", **generator), pretrained)
    other = read_results(pretrained / "output" / "generator" / "results.jsonl")[0]
    assert other.parameters < outputs[0].parameters


def test_a_joint_checkpoint_without_discriminator_is_refused_in_one_line(pretrained: Path, tmp_path: Path) -> None:
    checkpoint = pretrained / "output" / "run" / "checkpoint-12"
    broken = tmp_path / "checkpoint-12"
    broken.mkdir()
    for path in checkpoint.iterdir():
        if path.is_file() and path.suffix != ".safetensors" and path.name != "manifest.json":
            (broken / path.name).write_bytes(path.read_bytes())
    weights = load_file(checkpoint / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("discriminator.")}
    assert len(kept) < len(weights)
    save_file(kept, broken / "model.safetensors", metadata={"format": "pt"})
    out, err = run("run_glue.py", flags(pretrained, pretrain_path=broken, tasks=["cola"]), pretrained, expect=2)
    assert err.startswith("error: ") and err.count("\n") == 1 and "encoder.layer.0.attention" in err
    assert "Traceback" not in out + err


def test_two_processes_give_one_set_of_results_and_the_same_as_one(
    tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer, dropout=0.0)
    write_glue(tmp_path / "glue", "CoLA", "MNLI")
    options = {"tasks": ["cola", "mnli"], "num_seeds": 1, "use_cpu": True, "head_dropout": 0, "learning_rate": 1e-2}
    options["bf16"] = False  # whose rounding is more than what is compared
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    argv = flags(tmp_path, experiment_name="two", **{**options, "per_device_train_batch_size": 4})
    result = subprocess.run(
        [*command, str(ROOT / "run_glue.py"), *argv],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("cola seed 42:") == 1
    two = read_results(tmp_path / "output" / "two" / "results.jsonl")
    assert [(r.task, r.settings["processes"]) for r in two] == [("cola", 2), ("mnli", 2)]
    run(
        "run_glue.py",
        flags(tmp_path, experiment_name="one", **{**options, "per_device_train_batch_size": 8}),
        tmp_path,
    )
    for task in ("cola", "mnli"):
        logits = [np.load(tmp_path / "output" / name / "predictions" / f"{task}-42.npz") for name in ("one", "two")]
        for split in logits[0].files:
            assert logits[1][split] == pytest.approx(logits[0][split], abs=1e-4)
