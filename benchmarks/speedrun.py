"""How fast can a discriminator learn on two cores? docs/speedrun.md has the rules and the table of records.

    python -m benchmarks.speedrun --name quickstart --config configs/pretraining/quickstart.yaml -- --max_steps 3000

The first start makes tokenizer and test set: a small masked language model, trained with a fixed seed, replaces tokens
of held-out text once. Then each seed trains with the recipe; behind -- stand options of run_pretraining.py. A run has
reached the target if the discriminator of its last step has this AUC on the test set. Time is that of training steps,
CPU time that of the whole process. A line with all seeds goes to records.jsonl. Seeds that are done are skipped.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from electra.command_line import as_flags
from electra.io.console import environment
from electra.io.errors import Parser, UserError, run_script
from electra.io.files import config_path, write_json
from electra.model.pretrained import load_networks
from electra.pretraining.data import load_data
from electra.pretraining.metrics import token_counts
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.testset import make_test_set, read_test_set
from electra.report.runs import TESTSET
from electra.tokenizers.options import OF_TRAINING

TARGET = 0.68
"""AUC. The quickstart with 4,000 steps had .685, one seed; token frequencies have .569."""
LENGTH = 64
TEXT: dict[str, Any] = {"dataset_name": "builtin", "validation_fraction": 0.05, "eval_seed": 42}
"""The documentation that comes with Python; one document in 20 is held out."""
YARDSTICK: dict[str, Any] = {
    **TEXT,
    "objective": "mlm",
    "discriminator_type": "modernbert",
    "initializer_range": 0.06,
    "vocab_size": 2048,
    "strip_accents": True,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": LENGTH,
    "max_length": LENGTH,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "per_device_train_batch_size": 16,
    "learning_rate": 2e-3,
    "warmup_steps": 200,
    "max_steps": 4000,
    "eval_steps": 1000,
    "bf16": False,
    "seed": 7,
}
"""The masked language model that corrupts the test set. A change of it, or of the text, begins a new table."""
NOT_A_RECIPE = (
    *("dataset", "train_file", "validation_f", "eval_seed", "tokenizer", "eval_", "seed", "init_", "text_column"),
    *("document_separator", "vocab_size", "max_documents", "min_frequency", "lowercase", "cased", "max_hours"),
)
"""Options that a record does not change, or how their names begin."""


def run_pretraining(words: list[str], threads: int) -> None:
    limits = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "run_pretraining.py", *words]
    code = subprocess.run(command, env={**os.environ, **limits}, cwd=Path(__file__).parents[1]).returncode
    if code:
        raise UserError(f"run_pretraining.py ended with exit code {code}, see above; the same command continues")


def prepare(folder: Path, threads: int) -> Path:
    """Return the test set, which is made once. The tokenizer lies in yardstick/tokenizer."""
    path = folder / "test_set.safetensors"
    where = {"output_dir": folder, "cache_dir": folder / "cache"}
    values = {**YARDSTICK, **{name: str(value) for name, value in where.items()}, "experiment_name": "yardstick"}
    if not path.is_file():
        run_pretraining(as_flags({**values, "auto_resume": True, "disable_tqdm": True}), threads)
        generator = load_networks(str(folder / "yardstick")).discriminator
        values |= dict.fromkeys(OF_TRAINING) | {"tokenizer_path": str(folder / "yardstick" / "tokenizer")}
        data = load_data(parse_pretraining_arguments(as_flags(values)), None)
        assert data.evaluation is not None
        counts = token_counts(data.cache, data.training_documents, generator.config.vocab_size)
        make_test_set(path, generator, data.tokenizer, data.evaluation, counts, length=LENGTH, mlm_probability=0.15)
    return path


def options_of(name: str, seed: int, recipe: list[str], folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the words of a run's command line, and what its numbers belong to: options and commit.

    Raises:
        UserError: the run would refuse them.
    """
    rules = {
        **TEXT,
        "tokenizer_path": str(folder / "yardstick" / "tokenizer"),
        "eval_corruption": str(folder / "test_set.safetensors"),
        "eval_steps": 10**9,  # before the first step, and at the end
        "seed": seed,
        "output_dir": str(folder),
        "cache_dir": str(folder / "cache"),
        "experiment_name": f"{name}-{seed}",
        "disable_tqdm": True,
    }
    words = [*recipe, *as_flags(rules)]
    args = parse_pretraining_arguments(words)
    if args.model.init_discriminator or args.model.init_generator:
        raise UserError(f"{name} starts from trained networks; a record starts from random weights")
    return words, {"options": args.record, "git_commit": environment()["git_commit"]}


def train(name: str, seed: int, recipe: list[str], folder: Path, threads: int) -> dict[str, Any]:
    """Train with the recipe, or read what was measured: AUC, minutes of training steps, CPU minutes of the process."""
    run = folder / f"{name}-{seed}"
    words, origin = options_of(name, seed, recipe, folder)
    if (run / "speedrun.json").is_file():
        told: dict[str, Any] = json.loads((run / "speedrun.json").read_text())
        if told.pop("origin", None) != origin:
            raise UserError(f"{run} was measured with other options or another commit; choose another --name")
        return told
    shutil.rmtree(run, ignore_errors=True)  # was interrupted: the rest would have another time
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_pretraining(words, threads)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads((run / "metrics.json").read_text())
    told = {
        "seed": seed,
        "auc": found["held_out"][f"{TESTSET}: trained"]["discriminator_auc"],
        "minutes": found["compute"]["training_seconds"] / 60,
        "cpu_minutes": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60,
        "steps": found["plan"]["steps"],
        "device": found["compute"]["device"],
    }
    write_json({**told, "origin": origin}, run / "speedrun.json")
    return told


def main(argv: list[str] | None = None) -> None:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="quickstart", help="of the record, and of its folders")
    parser.add_argument("--config", default="configs/pretraining/quickstart.yaml", help="the recipe")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output_dir", type=Path, default=Path("output/speedrun"))
    parser.add_argument("recipe", nargs="*", metavar="-- OPTION", help="options of run_pretraining.py")
    options = parser.parse_args(argv)
    folder = options.output_dir.resolve()
    for word in options.recipe:
        if word.removeprefix("--").replace("-", "_").startswith(NOT_A_RECIPE):
            raise UserError(f"{word} is not part of a recipe: text, tokenizer, seeds and evaluation are fixed")
    if Path(options.name).name != options.name:
        raise UserError(f"--name {options.name} is not possible: it must be a plain folder name, without slashes")
    recipe = ["--config", str(config_path(options.config).resolve()), *options.recipe]
    for seed in options.seeds:
        options_of(options.name, seed, recipe, folder)
    folder.mkdir(parents=True, exist_ok=True)
    test_set = read_test_set(str(prepare(folder, options.threads)))
    seeds = [train(options.name, seed, recipe, folder, options.threads) for seed in options.seeds]
    record = {
        "name": options.name,
        "recipe": " ".join([options.config, *options.recipe]),
        "target": TARGET,
        "reached": all(told["auc"] >= TARGET for told in seeds),
        "minutes": statistics.fmean(told["minutes"] for told in seeds),
        "cpu_minutes": statistics.fmean(told["cpu_minutes"] for told in seeds),
        "threads": options.threads,
        "seeds": seeds,
        "test_set": test_set.fingerprint,
        **environment(),
    }
    with (folder / "records.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    run_script(main)
