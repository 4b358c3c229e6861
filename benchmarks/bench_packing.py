"""What `--segment_policy packed` gains on short documents: padding, and real tokens per second of training.

    python -m benchmarks.bench_packing --train_file corpus.txt --tokenizer_path tokenizer --document_separator line

Steps of both policies take turns in one process, with as many rows in a batch. Seconds are CPU time of the process, so
that what else the machine does hardly counts; medians over the steps of (real tokens of the batch / seconds).
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from benchmarks.bench_pretraining import make
from electra.pretraining.trainer import ElectraTrainer
from electra.report.blocks import markdown_table

POLICIES = ("windows", "packed")


def stepper(trainer: ElectraTrainer, precision: str) -> Callable[[], tuple[int, int, int, float]]:
    """A function that takes a step: segments, real tokens and all positions of its batch, and CPU seconds."""
    model = trainer.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=trainer.args.learning_rate, fused=True)
    size, turn = trainer.args.train_batch_size, 0

    def step() -> tuple[int, int, int, float]:
        nonlocal turn
        batch = trainer.data_collator(trainer.train_dataset.__getitems__(range(turn * size, (turn + 1) * size)))
        turn += 1
        started = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), trainer.args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        seconds = time.process_time() - started
        ids = batch["input_ids"]
        real = int(batch["attention_mask"].sum()) if "attention_mask" in batch else ids.numel()
        segments = int((batch["segment_lengths"] > 0).sum()) if "segment_lengths" in batch else len(ids)
        return segments, real, ids.numel(), seconds

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--size", default="small")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options, rest = parser.parse_known_args()
    torch.set_num_threads(options.threads)
    rows = []
    with contextlib.ExitStack() as stack:
        options.cache_dir = stack.enter_context(tempfile.TemporaryDirectory())
        steps = {}
        for policy in POLICIES:
            case = {name: getattr(options, name) for name in ("size", "length", "batch", "precision")}
            options.rest = [*rest, "--segment_policy", policy]
            trainer, _ = make(case, options, stack.enter_context(tempfile.TemporaryDirectory()))
            steps[policy] = stepper(trainer, options.precision)
            steps[policy]()
        taken: dict[str, list[tuple[int, int, int, float]]] = {policy: [] for policy in POLICIES}
        for _ in range(options.steps):
            for policy in POLICIES:
                taken[policy].append(steps[policy]())
    rates = {}
    for policy in POLICIES:
        segments, real, positions, _ = (sum(column) for column in zip(*taken[policy], strict=True))
        rates[policy] = statistics.median(tokens / seconds for _, tokens, _, seconds in taken[policy])
        row = f"{segments / len(taken[policy]) / options.batch:.1f}", f"{positions / len(taken[policy]):.0f}"
        rows.append([policy, *row, f"{1 - real / positions:.1%}", f"{rates[policy]:.0f}"])
    names = ["policy", "documents in a row", "positions in a batch", "padding", "real tokens per CPU second"]
    print(markdown_table(names, rows))
    print(f"\npacked / windows: {rates['packed'] / rates['windows']:.2f}")


if __name__ == "__main__":
    main()
