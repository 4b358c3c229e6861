"""Wrong commands end with exit code 2 and one line that names what is wrong, write nothing of a run, and run no code.

Two or three cases of each kind of mistake, through the real commands; options alone are in test_cli.py.
"""

import json
import os
import pickle
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from transformers import Trainer
from transformers.training_args import OptimizerNames

from electra.base.checkpoints import find_damage, write_manifest
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run import main as pretrain
from electra.report.command import main as report
from electra.tasks.glue.task import main as glue
from electra.tokenizers.command import main as tokenizer
from tests.conftest import refused_command
from tests.helpers import parametrize
from tests.pretraining.runs import FAST, flags, write_corpus
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.glue.files import write_encoder, write_glue

pytestmark = pytest.mark.slow

DONE = "output/done"
"""The finished run of `pristine`."""
LAST = "output/done/checkpoint-4"
RESUME = {"experiment_name": "done", "resume_from_checkpoint": DONE, "max_steps": 6}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory, glue_tokenizer, short_end):
    """Corpora, tokenizers, a finished run of two checkpoints, an encoder and task files."""
    folder = tmp_path_factory.mktemp("world")
    write_corpus(folder / "corpus.txt")
    glue_tokenizer.save_pretrained(folder / "tok")
    write_encoder(folder / "encoder", glue_tokenizer)
    write_glue(folder / "glue", "CoLA")
    state = (folder / "tok" / "tokenizer.json").read_text()
    files = {
        "empty.txt": "\n\n \t\n",
        "short.txt": "bad bad\n\nbad bad bad",
        "cut.jsonl": '{"text": "a"}\n{"text": "b"\n',
        "old/results.jsonl": "[1]\n",
        "remote_tok/tokenizer_config.json": '{"auto_map": {"AutoTokenizer": ["code.Mine", null]}}',
        "remote_tok/tokenizer.json": json.dumps({**json.loads(state), "model": {"type": "Mine"}}),
        "remote_tok/code.py": "open('ran', 'w')\nclass Mine: pass\n",
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    finished = {**FAST, "max_steps": 4, "save_steps": 2, "tokenizer_path": folder / "tok", "experiment_name": "done"}
    pretrain(flags(folder, **finished))
    (folder / "old").rename(folder / "output" / "old")
    return folder


@pytest.fixture
def world(pristine, tmp_path, monkeypatch):
    """Return a copy of the folder `pristine`, which is also the working directory."""
    folder = tmp_path / "world"
    shutil.copytree(pristine, folder)
    monkeypatch.chdir(folder)
    return folder


def cut(name):
    """A change of `world` that takes the last byte off a file."""
    return lambda world: os.truncate(world / name, (world / name).stat().st_size - 1)


def edit(name, old, new):
    """A change of `world` that replaces a text in a file."""
    return lambda world: (world / name).write_text((world / name).read_text().replace(old, new))


def argv_of(command, options):
    """Return a command line that works but for the given options; None takes an option away."""
    if command is pretrain:
        return flags(Path(), **{**FAST, "max_steps": 4, "tokenizer_path": "tok", **options})
    if command is glue:
        return glue_flags(Path(), **{"tasks": "cola", "num_seeds": 1, **options})
    if command is report:
        return [options.pop("folder", DONE), *(f"--{name}={value}" for name, value in options.items())]
    options = {"train_file": "corpus.txt", "output_dir": "new", "vocab_size": 120, **options}
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


PRETRAINING = [
    ({"max_stepz": 4}, "--max_stepz --max_steps"),
    ({"max_length": 64}, "--max_length 64 32"),
    ({"output_dir": "corpus.txt/below"}, "corpus.txt/below"),
    ({"cache_dir": "corpus.txt/below", "tokenizer_path": None}, "--cache_dir corpus.txt/below"),
    ({"train_file": "short.txt"}, "segment"),
    ({"train_file": None, "dataset_name": "no-such/set"}, "no-such/set"),
    ({"validation_fraction": 0.2, "validation_file": "missing.txt"}, "missing.txt"),
    ({"tokenizer_path": "remote_tok"}, "remote_tok"),
    ({**RESUME, "resume_from_checkpoint": "nothing"}, "nothing"),
    ({**RESUME, "resume_from_checkpoint": LAST}, "checkpoint-4 model.safetensors", cut(f"{LAST}/model.safetensors")),
    ({"init_discriminator": "nothing"}, "nothing"),
    ({"optim": "sgd", "optim_args": "momentum"}, "--optim sgd"),
    ({"lr_scheduler_type": "cosine_with_min_lr"}, "--lr_scheduler_type min_lr"),
]
TOKENIZER = [
    ({"output_dir": "corpus.txt"}, "corpus.txt"),
    ({"train_file": None}, "--train_file --dataset_name"),
    ({"train_file": "empty.txt"}, "empty.txt"),
    ({"train_file": "cut.jsonl"}, "cut.jsonl line 2"),
]
GLUE = [
    ({"num_seeds": 0}, "--num_seeds 0"),
    ({"seed": 2**32 - 1, "num_seeds": 2}, "--num_seeds 2"),
    ({"experiment_name": "old"}, "results.jsonl"),
    ({"pretrain_path": None}, "--pretrain_path --from_scratch"),
    ({"pretrain_path": DONE}, "discriminator model.safetensors", cut(f"{DONE}/discriminator/model.safetensors")),
    ({}, "encoder weights", cut("encoder/model.safetensors")),
    ({"glue_dir": "./none"}, "--glue_dir ./none"),
]
REPORT = [
    ({"folder": "missing"}, "missing"),
    ({}, f"{DONE}/trainer_state.json global_step", edit(f"{DONE}/trainer_state.json", '"global_step"', '"step"')),
]
CASES = [
    (command, *case)
    for command, cases in ((pretrain, PRETRAINING), (tokenizer, TOKENIZER), (glue, GLUE), (report, REPORT))
    for case in cases
]


def files_of(folder):
    """Return the contents of all files of a folder by path, except locks and the cache, whose parts are never cut."""
    paths = (path for path in folder.rglob("*") if "cache" not in path.parts and path.suffix != ".lock")
    return {path: path.read_bytes() if path.is_file() else b"" for path in paths}


@parametrize("case", CASES, ids=lambda case: f"{case[0].__module__} {case[1]} {case[2]}")
def test_what_is_wrong_is_named_in_one_line(case, world, capsys):
    command, options, named, *changes = case
    for change in changes:
        change(world)
    before = files_of(world)
    line = refused_command(command, argv_of(command, options), capsys)
    assert all(word in line for word in named.split(" ")), line
    assert files_of(world) == before


# ---- nothing in a file runs code


class Payload:
    """Makes the file `ran` in the working directory when it is unpickled."""

    def __reduce__(self):
        return open, ("ran", "w")


def write_payload(path):
    """A file that would run code; beside it a new manifest: whoever writes the files writes the checksums."""
    torch.save({"state": Payload()}, path)
    with suppress(RuntimeError):  # afterwards it misses what torch writes around a pickle
        torch.load(path, weights_only=False)
    Path("ran").unlink()
    write_manifest(path.parent)


@parametrize("name", ["optimizer.pt", "rng_state.pth", "pytorch_model.bin", "trainer_state.json"])
def test_a_hostile_checkpoint_is_refused_and_runs_nothing(world, name, capsys):
    if name == "pytorch_model.bin":
        (world / LAST / "model.safetensors").unlink()
    write_payload(world / LAST / name)
    assert LAST in refused_command(pretrain, ["--resume_from_checkpoint", LAST, "--max_steps=6"], capsys)
    assert not Path("ran").exists()


JUNK = {
    "bytes": b"junk",
    "nothing": b"",
    "opcode": b"\x80\x02h\x05.",  # a pickle that asks for what was never stored
    "pickle": pickle.dumps([1], 2),
    "zip": b"PK\x03\x04",
}


@parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"])
@parametrize("junk", JUNK)
def test_junk_with_the_right_checksum_is_named_in_one_line(world, name, junk, capsys):
    (world / LAST / name).write_bytes(JUNK[junk])
    write_manifest(world / LAST)
    assert LAST in refused_command(pretrain, ["--resume_from_checkpoint", DONE, "--max_steps=6"], capsys)


def test_a_missing_library_is_named_before_any_work(world, capsys):
    """Of all optimizers that Trainer knows, without a list of them here."""
    missing = 0
    for name in OptimizerNames:
        argv = argv_of(pretrain, {"optim": name.value, "cache_dir": "new"})
        args = parse_pretraining_arguments(argv).training
        try:
            Trainer.get_optimizer_cls_and_kwargs(args, torch.nn.Linear(1, 1))
        except (ImportError, ValueError):
            missing += 1
            assert f"--optim {name.value} " in refused_command(pretrain, argv, capsys)
    assert missing
    assert not Path("new").exists() and not Path("output/run").exists()


def test_arguments_are_neither_pickled_nor_read_from_a_pickle(world):
    assert not list(world.rglob("training_args.bin"))
    write_payload(world / LAST / "training_args.bin")
    pretrain(["--resume_from_checkpoint", LAST, "--max_steps=6"])
    assert not Path("ran").exists() and find_damage(world / DONE / "checkpoint-6") is None


def test_a_hostile_encoder_is_refused_and_runs_nothing(world, capsys):
    (world / "encoder" / "model.safetensors").unlink()
    write_payload(world / "encoder" / "pytorch_model.bin")
    assert "encoder" in refused_command(glue, argv_of(glue, {}), capsys)
    argv = argv_of(pretrain, {"init_discriminator": "encoder", "embedding_size": 8})
    assert "encoder" in refused_command(pretrain, argv, capsys)
    assert not Path("ran").exists()


# ---- no secret gets into what a run writes or says


def test_no_secret_is_written_or_logged(world, monkeypatch, capfd):
    secrets = {"HF_TOKEN": "hf_Zq81sesame", "WANDB_API_KEY": "83" * 19 + "se", "AWS_SECRET_ACCESS_KEY": "aws84sesame"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    pretrain([*argv_of(pretrain, {"report_to": "tensorboard"}), "--hub_token=hf_Zq88sesame"])
    glue(argv_of(glue, {"pretrain_path": "output/run", "experiment_name": "glue"}))
    tokenizer(argv_of(tokenizer, {}))
    written = {str(path): path.read_bytes() for path in world.rglob("*") if path.is_file()}
    for path in filter(zipfile.is_zipfile, [*written]):
        with zipfile.ZipFile(path) as archive:
            written |= {f"{path}:{name}": archive.read(name) for name in archive.namelist()}
    for kind in ("discriminator/README.md", "events.out", "report.html", "optimizer.pt:"):
        assert any(kind in name for name in written)
    output = "".join(capfd.readouterr())
    for secret in (*secrets.values(), "hf_Zq88sesame"):
        assert secret not in output
        assert [name for name, content in written.items() if secret.encode() in content] == []
