"""How fast fine-tuning is, against what `transformers.Trainer` does by default.

    python -m benchmarks.bench_glue --from_scratch small --tokenizer_path tokenizer --glue_dir glue --tasks cola mrpc

Both train the same architecture on the same rows, batch and precision, through `train()`, in one process, alternating,
after a warm-up; medians and their ratio. The default: `AutoModelForSequenceClassification`, every row padded to the
maximum length, rows in random order. Ours: batches of like length, padded to their longest row; layer-wise learning
rates. Numbers are examples per second.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, PrinterCallback, Trainer, TrainingArguments

from electra.base.console import setup_logging
from electra.finetuning.config import resolve_hyperparameters
from electra.finetuning.data import Examples, PaddingCollator, encode_examples
from electra.finetuning.heads import Encoder, EncoderWithHead, fresh_encoder
from electra.finetuning.trainer import FineTuner, step_loss, training_arguments
from electra.runtime.device import tune_for_cpu
from electra.tasks.glue.data import load_task
from electra.tasks.glue.task import parse_glue_arguments
from electra.tasks.glue.tasks import KNOWN_TASKS

PADDED: dict[str, Any] = {"truncation": True, "padding": "max_length"}
"""Arguments of the tokenizer for the rows of the default."""


def some_rows(examples: Examples, rows: int) -> Examples:
    """Return random examples, `rows` of them or all, and the same ones each time."""
    chosen = np.random.default_rng(0).permutation(len(examples))[:rows].tolist()
    columns = (examples.first, examples.second, examples.labels)
    taken: list[Any] = [None if column is None else [column[i] for i in chosen] for column in columns]
    return Examples(*taken)


def timed_training(make: Callable[[], Trainer]) -> float:
    """Make a trainer, and return the seconds of its `train()`."""
    trainer = make()
    started = time.perf_counter()
    trainer.train()
    return time.perf_counter() - started


def compare(encoder: Encoder, task: str, args: argparse.Namespace, options: list[str]) -> dict[str, object]:
    """Return the row of a task: examples per second of both ways, by the medians of the rounds, and their ratio."""
    settings = replace(resolve_hyperparameters(parse_glue_arguments(options), task, encoder), num_train_epochs=1.0)
    examples = some_rows(load_task(KNOWN_TASKS[task], args.glue_dir, ["train"])["train"], args.rows)
    encoded = encode_examples(examples, encoder.tokenizer, settings.max_length)
    rows = encoder.tokenizer(examples.first, examples.second, max_length=settings.max_length, **PADDED)
    padded = Dataset.from_dict({**rows, "labels": examples.labels})
    num_labels = max(1, len(KNOWN_TASKS[task].labels))

    def ours() -> Trainer:
        fresh = fresh_encoder(args.from_scratch, args.tokenizer_path)
        model = EncoderWithHead(fresh.model, settings.head, num_labels, 0.1)
        tune_for_cpu(model)
        return FineTuner(
            settings,
            model=model,
            args=training_arguments(settings, seed=0, folder=Path(folder), name="ours"),
            train_dataset=encoded,
            data_collator=PaddingCollator(encoder.tokenizer.pad_token_id),
            compute_loss_func=step_loss,
        )

    def default() -> Trainer:
        config = encoder.model.config
        config.num_labels = num_labels
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=settings.per_device_train_batch_size,
            num_train_epochs=1,
            learning_rate=settings.learning_rate,
            bf16=bool(settings.bf16),
            use_cpu=settings.use_cpu or not torch.accelerator.is_available(),
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(AutoModelForSequenceClassification.from_config(config), arguments, train_dataset=padded)
        trainer.remove_callback(PrinterCallback)
        return trainer

    with tempfile.TemporaryDirectory() as folder:
        timed_training(ours), timed_training(default)
        times = [(timed_training(ours), timed_training(default)) for _ in range(args.rounds)]
    our_seconds, default_seconds = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "task": task,
        "mean_tokens": float(encoded.lengths.mean()),
        "ours": len(examples) / our_seconds,
        "default": len(examples) / default_seconds,
        "ratio": default_seconds / our_seconds,
    }


def main() -> None:
    setup_logging()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from_scratch", required=True, help="as in run_glue.py")
    parser.add_argument("--tokenizer_path")
    parser.add_argument("--glue_dir", required=True)
    parser.add_argument("--tasks", nargs="+", default=["cola", "mrpc"])
    parser.add_argument("--rows", type=int, default=960, help="training rows of a round")
    parser.add_argument("--rounds", type=int, default=3)
    args, glue_options = parser.parse_known_args()
    encoder = fresh_encoder(args.from_scratch, args.tokenizer_path)
    options = ["--from_scratch", args.from_scratch, *glue_options]
    rows = [compare(encoder, task, args, options) for task in args.tasks]
    print(pd.DataFrame(rows).round(2).to_string(index=False))


if __name__ == "__main__":
    main()
