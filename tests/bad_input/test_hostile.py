"""Nothing in a file runs code, and no secret of the environment gets into what a run writes or says.

Each payload, where it is unpickled, makes a file `ran`; that it would is shown first.
"""

import io
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from electra.checkpoint import MANIFEST_NAME, find_checkpoint_corruption, write_manifest
from electra.cli import CommandLine
from electra.errors import UserError
from electra.finetuning.evaluation import Evaluation
from electra.pretraining.options import GROUPS, PretrainingArguments
from electra.tasks.glue.data import read_tsv
from electra.tasks.glue.tasks import TASKS
from run_glue import main as evaluate
from run_pretraining import main
from tests.bad_input.commands import GLUE, PRETRAIN, Case, refused
from tests.bad_input.world import FAST
from tests.pretraining.runs import flags
from tests.tasks.glue.files import flags as glue_flags
from train_tokenizer import main as train_tokenizer

LAST = "output/done/checkpoint-4"
SECRETS = {
    "HF_TOKEN": "hf_Zq81sesame",
    "HUGGING_FACE_HUB_TOKEN": "hf_Zq82sesame",
    "WANDB_API_KEY": "83" * 19 + "sesame"[:2],
    "AWS_SECRET_ACCESS_KEY": "aws84sesame",
    "AWS_ACCESS_KEY_ID": "AKIA85SESAME",
    "OPENAI_API_KEY": "sk-86sesame",
    "COMET_API_KEY": "comet87sesame",
}


class Payload:
    """Makes the file `ran` in the working directory when it is unpickled."""

    def __reduce__(self) -> Any:
        return open, ("ran", "w")


def write_payload(path: Path) -> None:
    torch.save({"state": Payload()}, path)


def write_plain_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Payload(), protocol=2))


def reseal(checkpoint: Path) -> None:
    """What a hostile author would do, too: whoever writes the files writes the checksums."""
    (checkpoint / MANIFEST_NAME).unlink()
    write_manifest(checkpoint)
    assert find_checkpoint_corruption(checkpoint) is None


@pytest.mark.parametrize("write", [write_payload, write_plain_pickle])
def test_the_payload_would_run(world: Path, write: Any) -> None:
    write(Path("file.pt"))
    with suppress(RuntimeError):  # afterwards it misses what torch writes around a pickle
        torch.load("file.pt", weights_only=False)
    assert Path("ran").exists()


@pytest.mark.parametrize("write", [write_payload, write_plain_pickle])
@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "pytorch_model.bin"])
def test_a_hostile_checkpoint_is_refused_and_runs_nothing(
    world: Path, name: str, write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "pytorch_model.bin":
        (world / LAST / "model.safetensors").unlink()
    write(world / LAST / name)
    reseal(world / LAST)
    resume = {"experiment_name": "done", "resume_from_checkpoint": LAST, "max_steps": 6, "validation_fraction": 0}
    line = refused(PRETRAIN, Case(PRETRAIN, resume, "").argv(), capsys)
    assert "checkpoint-4" in line
    assert not Path("ran").exists()


def test_arguments_are_not_pickled_and_those_of_somebody_else_are_not_read(world: Path) -> None:
    assert not list(world.rglob("training_args.bin"))
    write_payload(world / LAST / "training_args.bin")
    reseal(world / LAST)
    main(["--resume_from_checkpoint", LAST, "--max_steps=6"])
    assert not Path("ran").exists() and find_checkpoint_corruption(world / "output" / "done" / "checkpoint-6") is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trainer_state.json", "{}x"),
        ("trainer_state.json", '{"global_step": "4"}'),
        ("trainer_state.json", '{"nonsense": 4}'),
        ("trainer_state.json", "[1]"),
        ("origin.json", "[1]"),
        ("origin.json", '{"batch_size": null}'),
        ("config.json", "[1]"),
        ("config.json", '{"model_type": "electra-pretraining", "auto_map": {"AutoModel": "code.Mine"}}'),
        ("tokenizer.json", "garbage"),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["code.Mine", null]}, "tokenizer_class": "Mine"}'),
        ("model.safetensors", "garbage"),
    ],
)
def test_a_sealed_checkpoint_of_nonsense_is_one_line(
    world: Path, name: str, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (world / LAST / "code.py").write_text("open('ran', 'w')\nclass Mine: pass\n")
    (world / LAST / name).write_text(content)
    reseal(world / LAST)
    resume = {"experiment_name": "done", "resume_from_checkpoint": LAST, "tokenizer_path": None, "max_steps": 6}
    line = refused(PRETRAIN, Case(PRETRAIN, {**resume, "validation_fraction": 0}, "").argv(), capsys)
    assert "checkpoint-4" in line
    assert not Path("ran").exists()


@pytest.mark.parametrize("write", [write_payload, write_plain_pickle])
def test_a_hostile_encoder_is_refused_and_runs_nothing(
    world: Path, write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (world / "encoder" / "model.safetensors").unlink()
    write(world / "encoder" / "pytorch_model.bin")
    assert "encoder" in refused(GLUE, Case(GLUE, {}, "").argv(), capsys)
    line = refused(PRETRAIN, Case(PRETRAIN, {"init_discriminator": "encoder", "embedding_size": 8}, "").argv(), capsys)
    assert "--init_discriminator encoder" in line
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "tag",
    ["python/object/apply:os.system ['touch ran']", "python/object/new:subprocess.Popen [['touch', 'ran']]",
     "python/name:os.system ''", "python/module:os ''"],
)  # fmt: skip
def test_a_hostile_configuration_is_refused_and_runs_nothing(world: Path, tag: str) -> None:
    Path("hostile.yaml").write_text(f"experiment_name: !!{tag}\n")
    with pytest.raises(UserError, match=r"hostile\.yaml"):
        CommandLine(GROUPS, "").parse(["--config", "hostile.yaml"])
    assert not Path("ran").exists()
    if "apply" in tag:
        yaml.unsafe_load(Path("hostile.yaml").read_text())
        assert Path("ran").exists()  # it would have


def test_hostile_predictions_count_as_absent(world: Path) -> None:
    evaluation = Evaluation(world, [])
    path = evaluation.predictions_path("cola", 42)
    path.parent.mkdir()
    content = io.BytesIO()
    np.savez(content, allow_pickle=True, dev=np.array([Payload()], dtype=object))
    path.write_bytes(content.getvalue())
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["dev.npy"]
    assert evaluation.read_predictions("cola", 42) == {}
    assert not Path("ran").exists()


def test_a_table_with_nul_bytes_and_very_long_cells_is_text(world: Path) -> None:
    cells = ["a\0b", "long " * 100_000, "\0", "x" * 200_000, '"', "=cmd|' /C calc'!A0"]
    path = world / "glue" / "CoLA" / "train.tsv"
    path.write_text("".join(f"gj04\t{i % 2}\t\t{cell}\n" for i, cell in enumerate(cells)))
    assert list(read_tsv(path, TASKS["cola"], "train").first) == cells
    evaluate(glue_flags(world, tasks="cola", num_seeds=1))
    assert (world / "output" / "run" / "report.html").is_file()


def written(folder: Path) -> dict[str, bytes]:
    """All that lies in a folder, members of zip archives unpacked."""
    found = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        found[str(path)] = path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                found |= {f"{path}:{name}": archive.read(name) for name in archive.namelist()}
    return found


def test_no_secret_is_written_or_said(
    world: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    main([*flags(world, **{**FAST, "tokenizer_path": "tok"}), "--hub_token=hf_Zq88sesame", "--report_to=tensorboard"])
    evaluate(glue_flags(world, pretrain_path="output/run", tasks="cola", num_seeds=1, experiment_name="glue"))
    train_tokenizer(["--train_file=corpus.txt", "--vocab_size=120", "--output_dir=new"])
    said = "".join(capfd.readouterr())
    files = written(world)
    assert any("discriminator/README.md" in name for name in files) and any("events.out" in name for name in files)
    assert any("report.html" in name for name in files) and any("optimizer.pt:" in name for name in files)
    for secret in (*SECRETS.values(), "hf_Zq88sesame"):
        assert secret not in said
        assert [name for name, content in files.items() if secret.encode() in content] == []


def test_pickled_options_hold_no_token() -> None:
    args = PretrainingArguments(output_dir="output", hub_token="hf_of_somebody", report_to="none")
    assert b"hf_of_somebody" not in pickle.dumps(args)
    assert pickle.loads(pickle.dumps(args)).learning_rate == args.learning_rate
