"""When does a discriminator start to learn? One small pair, one change at a time.

    python -m benchmarks.study_slow_start --train_file wiki_13m.txt --validation_file wiki_held_out.txt

Every row trains for the same number of tokens and evaluates often. Started is what the detector of a run calls so
(callbacks/health.py): held-out loss .01 nats under the base rate's entropy and AUC of .60, once the
generator has settled. The loss alone would not do: at this length [CLS], [SEP] and token frequencies bring .011. Rows
and seeds that are done are skipped; --report prints the table of what is there.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from electra.options import as_flags
from electra.pretraining.callbacks.health import assess, evaluations_of
from electra.report.blocks import markdown_table

BASE: dict[str, Any] = {
    "max_documents": 5000,
    "vocab_size": 1024,
    "embedding_size": 128,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 128,
    "initializer_range": 0.06,
    "generator_size": 0.25,
    "generator_layer_size": 0.5,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "mlm_probability": 0.25,
    "max_length": 64,
    "learning_rate": 1e-3,
    "warmup_steps": 200,
    "lr_scheduler_type": "constant_with_warmup",
    "max_eval_segments": 500,
    "logging_steps": 125,
    "eval_steps": 125,
    "bf16": False,
    "disable_tqdm": True,
    "auto_resume": True,
}
MODERNBERT = {"discriminator_type": "modernbert", "initializer_range": 0.02}
ROWS: dict[str, dict[str, Any]] = {
    "reference": {},
    "normal, .02": {"initializer_range": 0.02},
    "truncated normal": {"initialization": "truncated_normal"},
    "original's: truncated, Glorot": {"initialization": "original"},
    "Adam without bias correction": {"adam_bias_correction": False},
    "warm-up, linear decay": {"lr_scheduler_type": "linear"},
    "the original's product": {"product_schedule": True},
    "nothing shared": {"tie": "none"},
    "words shared": {"tie": "word"},
    "lambda 1": {"discriminator_weight": 1},
    "lambda 10": {"discriminator_weight": 10},
    "batch of 8": {"batch": 8},
    "batch of 128": {"batch": 128},
    "rate 3e-4": {"learning_rate": 3e-4},
    "rate 2e-3": {"learning_rate": 2e-3},
    "DeBERTa-v2 (relative positions)": {"discriminator_type": "deberta-v2"},
    "ModernBERT (rotary), nothing shared": {**MODERNBERT, "tie": "none"},
    "ModernBERT (rotary), full-width generator": {**MODERNBERT, "generator_size": 1.0},
}


def run(row: str, seed: int, options: argparse.Namespace) -> None:
    if (folder_of(row, seed, options) / "metrics.json").is_file():
        return
    changes = dict(ROWS[row])
    batch = changes.pop("batch", 32)
    steps = options.tokens // (64 * batch)
    every = max(1, 125 * 32 // batch)
    values = {
        **BASE,
        "train_file": options.train_file,
        "validation_file": options.validation_file,
        "output_dir": options.output_dir,
        "experiment_name": folder_of(row, seed, options).name,
        "seed": seed,
        "per_device_train_batch_size": batch,
        "max_steps": steps,
        "warmup_steps": 200 * 32 // batch,
        "logging_steps": every,
        "eval_steps": every,
        **changes,
    }
    subprocess.run([sys.executable, "run_pretraining.py", *as_flags(values)], check=True)


def folder_of(row: str, seed: int, options: argparse.Namespace) -> Path:
    return Path(options.output_dir) / f"row{list(ROWS).index(row)}-{seed}"


def report(options: argparse.Namespace) -> None:
    table = []
    for row in ROWS:
        found = [told for seed in options.seeds if (told := read(folder_of(row, seed, options)))]
        if found:
            starts, aucs, losses = zip(*found, strict=True)
            started = ", ".join(f"> {options.tokens / 1e6:.1f}" if s is None else f"{s / 1e6:.2f}" for s in starts)
            spread = f" ± {(max(aucs) - min(aucs)) / 2:.3f}" if len(found) > 1 else ""
            table.append([row, started, f"{statistics.fmean(aucs):.3f}{spread}", f"{statistics.fmean(losses):.2f}"])
    header = ("changed", "tokens until it started, millions", "AUC at the end", "generator loss")
    print(markdown_table(header, table))


def read(folder: Path) -> tuple[int | None, float, float] | None:
    """Tokens until the start, AUC and generator loss at the end; None if the run is not done."""
    if not (folder / "metrics.json").is_file():
        return None
    told = json.loads((folder / "metrics.json").read_text())
    state = json.loads(next(folder.glob("checkpoint-*/trainer_state.json")).read_text())
    evaluations = evaluations_of(state["log_history"])
    count = range(1, len(evaluations) + 1)
    first = next((n for n in count if assess(evaluations[:n], vocab_size=1024) == "learning"), None)
    last = told["held_out"]["trained"]
    return (
        None if first is None else evaluations[first - 1].tokens_seen,
        last["discriminator_auc"],
        last.get("generator_loss", float("nan")),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file")
    parser.add_argument("--validation_file")
    parser.add_argument("--output_dir", default="output/slow_start")
    parser.add_argument("--tokens", type=int, default=2_048_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--report", action="store_true", help="print the table, run nothing")
    options = parser.parse_args()
    if not options.report:
        for seed in options.seeds:
            for row in options.rows:
                run(row, seed, options)
    report(options)


if __name__ == "__main__":
    main()
