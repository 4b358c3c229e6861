"""Objectives, parts, generators, schedules at equal compute: each pre-trained, fine-tuned and put in one table.

    python -m benchmarks.study_objectives --train_file wiki_13m.txt --validation_file wiki_held_out.txt --glue_dir glue

Without --glue_dir nothing is fine-tuned. With --eval_corruption, discriminators are also compared on one fixed
corrupted test set (`python -m electra testset`), whatever their generators; then use the tokenizer beside its
generator.

Every arm starts from configs/pretraining/study_cpu.yaml and differs by its flags alone. Its number of steps is the one
that takes the FLOPs of the reference, `electra`, by 6 N T and attention, and its schedule ends there. Arms and seeds
that are done are skipped, so the same command goes on where it was stopped; --arms and --seeds run a part of it, and
--report prints the table of what is there.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from electra.io.console import setup_logging
from electra.model.configuration import ElectraPretrainingConfig, discriminator_config, generator_config
from electra.objectives import OBJECTIVES
from electra.options import as_flags
from electra.pretraining.configuration import Configuration
from electra.pretraining.model import DROPOUTS, SIZES
from electra.pretraining.options import parse_arguments
from electra.pretraining.plan import training_flops
from electra.report.blocks import markdown_table

CONFIG = Path("configs/pretraining/study_cpu.yaml")
FULL_SIZE = {"generator_size": 1.0, "generator_layer_size": 1.0}
ARMS: dict[str, dict[str, Any]] = {
    "electra": {},
    "mlm": {"objective": "mlm", "tie": None},
    "electra_15": {"objective": "electra_15"},
    "replace_mlm": {"objective": "replace_mlm"},
    "all_tokens_mlm": {"objective": "all_tokens_mlm"},
    "two_stage": {"objective": "two_stage", **FULL_SIZE},
    "two_stage_fresh": {"objective": "two_stage", **FULL_SIZE, "init_from_generator": False},
    "adversarial": {"objective": "adversarial"},
    "generator_12": {"generator_size": 0.125},
    "generator_50": {"generator_size": 0.5},
    "generator_100": {"generator_size": 1.0},
    "tie_none": FULL_SIZE,
    "tie_word": {**FULL_SIZE, "tie": "word"},
    "tie_embeddings": {**FULL_SIZE, "tie": "embeddings"},
    "tie_all": {**FULL_SIZE, "tie": "all"},
    "electra_parts": {"discriminator_type": "electra"},
    "electra_parts_local": {"discriminator_type": "electra", "initialization": "local"},
    "electra_parts_muon": {"discriminator_type": "electra", "muon_learning_rate": 3e-3},
    "electra_parts_local_muon": {
        "discriminator_type": "electra",
        "initialization": "local",
        "muon_learning_rate": 3e-3,
    },
    "electra_parts_local_tied": {"discriminator_type": "electra", "initialization": "local", "tie": "embeddings"},
    "deberta_parts": {"discriminator_type": "deberta-v2"},
    "local": {"initialization": "local"},
    "local_muon": {"initialization": "local", "muon_learning_rate": 3e-3},
    "local_linear": {"initialization": "local", "lr_scheduler_type": "linear"},
    "stable_then_decay": {
        "lr_scheduler_type": "warmup_stable_decay",
        "lr_scheduler_kwargs": {"num_decay_steps": 250, "decay_type": "linear"},
    },
}
"""Flags of each arm. Shared embeddings need one width, so the arms of tying have generators of full size."""
TASKS = {"cola": "mcc", "sst2": "accuracy", "mrpc": "accuracy", "rte": "accuracy"}
STARTED = 0.60
"""AUC on the fixed test set; token frequencies give .53."""
GLUE_CONFIG = Path("configs/glue/study_cpu.yaml")


def flops_per_step(args: Configuration) -> float:
    """Training FLOPs of an optimizer step, on average over the stages of a run."""
    sizes, objective, steps = args.model, args.objective, 1000
    discriminator = discriminator_config(
        vocab_size=args.tokenizer.vocab_size,
        pad_token_id=0,
        model_type=sizes.discriminator_type,
        **{name: getattr(sizes, name) for name in (*SIZES, *DROPOUTS)},
    )
    generator, _ = generator_config(discriminator, sizes.generator_size, sizes.generator_layer_size)
    has_stages = OBJECTIVES[objective.objective].has_stages
    config = ElectraPretrainingConfig(
        generator,
        discriminator,
        objective=objective.objective,
        mlm_probability=objective.mlm_probability,
        generator_steps=steps // 2 if has_stages else 0,
    )
    batch_size = args.training.per_device_train_batch_size
    flops, *_ = training_flops(config, max_length=args.segments.max_length, batch_size=batch_size, steps=steps)
    return flops / steps


def arm_flags(arm: str, options: argparse.Namespace, seed: int) -> list[str]:
    """Of run_pretraining.py, but for the number of steps."""
    values = {
        "config": write_config(arm, options.output_dir),
        "train_file": options.train_file,
        "validation_file": options.validation_file,
        "seed": seed,
        "output_dir": options.output_dir,
        "experiment_name": run_name(arm, seed),
        "disable_tqdm": True,
        "auto_resume": True,
        "tokenizer_path": options.tokenizer_path,
        "eval_steps": options.eval_steps,
        **ARMS[arm],
    }
    if OBJECTIVES[values.get("objective") or "electra"].finds_replaced:
        values["eval_corruption"] = options.eval_corruption
    return as_flags(values)


def write_config(arm: str, output_dir: Path) -> Path:
    """The study's configuration without what the arm takes away, which no flag could."""
    removed = {name for name, value in ARMS[arm].items() if value is None}
    lines = [line for line in CONFIG.read_text().splitlines() if line.split(":")[0] not in removed]
    path = output_dir / f"{run_name(arm, 0)}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def run_name(arm: str, seed: int) -> str:
    return f"{arm}-{seed}"


def run_arm(arm: str, seed: int, options: argparse.Namespace) -> None:
    """Pre-train and fine-tune, unless that is done."""
    folder = options.output_dir / run_name(arm, seed)
    budget = flops_per_step(parse_arguments(arm_flags("electra", options, seed))) * options.steps
    flags = arm_flags(arm, options, seed)
    if not (folder / "discriminator").is_dir():
        steps = round(budget / flops_per_step(parse_arguments(flags)))
        subprocess.run([sys.executable, "run_pretraining.py", *flags, f"--max_steps={steps}"], check=True)
    if options.glue_dir is None:
        return
    glue = {
        "config": GLUE_CONFIG,
        "pretrain_path": folder,
        "glue_dir": options.glue_dir,
        "tasks": list(TASKS),
        "num_seeds": options.glue_seeds,
        "output_dir": options.output_dir,
        "experiment_name": f"{folder.name}-glue",
        "disable_tqdm": True,
    }
    subprocess.run([sys.executable, "run_glue.py", *as_flags(glue)], check=True)


def report(options: argparse.Namespace) -> None:
    """The table of all that is done: means over seeds, and behind ± half of the range."""
    names = ["steps", "generator_loss", "discriminator_loss", "discriminator_auc", "mlm_accuracy"]
    names += ["start_mtokens", "fixed_loss", "fixed_auc", *TASKS, "mean"]
    found = {arm: [row for seed in options.seeds if (row := read_row(arm, seed, options))] for arm in ARMS}
    names = [name for name in names if any(name in row for rows in found.values() for row in rows)]
    table = [
        [arm, str(len(rows)), *(cell([row[name] for row in rows if name in row]) for name in names)]
        for arm, rows in found.items()
        if rows
    ]
    print(markdown_table(["arm", "seeds", *names], table))


def read_row(arm: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Held-out metrics; with --eval_corruption those of the fixed set and millions of tokens until the start, if there
    was one; with --glue_dir percent of each task. Nothing where the arm is not done."""
    folder = options.output_dir / run_name(arm, seed)
    if not (folder / "metrics.json").is_file():
        return {}
    told = json.loads((folder / "metrics.json").read_text())
    row = {**told["held_out"]["trained"], "steps": told["plan"]["steps"]}
    if fixed := told["held_out"].get("fixed: trained"):
        row |= {"fixed_loss": fixed["discriminator_loss"], "fixed_auc": fixed["discriminator_auc"]}
        logs = json.loads((folder / "trainer_state.json").read_text())["log_history"]
        started = [line["step"] for line in logs if line.get("eval_fixed_discriminator_auc", 0) >= STARTED]
        row |= {"start_mtokens": started[0] * told["plan"]["tokens_per_step"] / 1e6} if started else {}
    if options.glue_dir is None:
        return row
    results = folder.with_name(folder.name + "-glue") / "results.jsonl"
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.is_file() else []
    for task, metric in TASKS.items():
        values = [line["metrics"][metric] for line in lines if line["task"] == task]
        if not values:
            return {}
        row[task] = 100 * statistics.fmean(values)
    return {**row, "mean": statistics.fmean(row[task] for task in TASKS)}


def cell(values: list[float]) -> str:
    if not values:
        return ""
    digits = 0 if max(values) > 200 else 1 if max(values) > 10 else 3
    spread = f" ± {(max(values) - min(values)) / 2:.{digits}f}" if len(values) > 1 and digits else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}"


def main() -> None:
    setup_logging()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file")
    parser.add_argument("--validation_file")
    parser.add_argument("--glue_dir", help="folder of the tasks, as in run_glue.py; without it nothing is fine-tuned")
    parser.add_argument("--eval_corruption", help="fixed corrupted test set of python -m electra testset")
    parser.add_argument("--tokenizer_path", help="that of the fixed set's generator")
    parser.add_argument("--eval_steps", type=int, default=500)
    parser.add_argument("--output_dir", type=Path, default=Path("output/study"))
    parser.add_argument("--steps", type=int, default=3000, help="of the reference; the others take its FLOPs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--glue_seeds", type=int, default=1)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--report", action="store_true", help="print the table, run nothing")
    options = parser.parse_args()
    if not options.report:
        for arm in options.arms:
            for seed in options.seeds:
                run_arm(arm, seed, options)
    report(options)


if __name__ == "__main__":
    main()
