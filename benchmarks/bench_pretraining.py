"""How fast a pre-training step is: against the plain way to write it, against Trainer's loop, against the hardware.

    python -m benchmarks.bench_pretraining --train_file corpus.txt --tokenizer_path tokenizer

Each way is a process of its own, since one of ours tunes the memory of its whole process; they take turns, so that
what else the machine does hits both alike. A turn is several steps, and the device is waited for at its end only.
Medians of the turns' mean steps, and their ratios. Batch, text, sizes, dropout, optimizer (fused AdamW) are the same.

    plain    examples/electra_in_a_page.py in a bare loop: forward, backward, clipping, optimizer
    ours     our model in the same loop
    train()  our model through `ElectraTrainer.train()`, from the end of its first steps to that of its last one

MFU is that of `train()`: FLOPs by 6 N T and attention, forward and backward, over the seconds of the step and the
rate of the largest square matrix product that the same process measured in the same precision. Memory is the peak of
the process on a CPU, of the allocator on a GPU.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState

from electra.base.parser import as_flags
from electra.pretraining import model as pretraining_model
from electra.pretraining import trainer as pretraining_trainer
from electra.pretraining.data import load_data
from electra.pretraining.model import prepare_model
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run_folder import open_run, provenance_of
from electra.pretraining.trainer import ElectraTrainer
from electra.report.blocks import table_of, to_markdown
from electra.runtime.device import keep_freed_memory, measure_matmul_flops
from examples.electra_in_a_page import PlainElectra

WARM_UP = 3
"""Steps before those that are timed."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""Precision of matrix products -> its type."""
ANSWERS: dict[str, Callable[[], Any]] = {}
"""Name of a measurement -> function that makes it in this process; filled by `start`."""


class StepTimes(TrainerCallback):
    """A callback that notes the times at which the warm-up, and the last step, have ended on the device."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step in (WARM_UP, state.max_steps):
            wait_for_device()
            self.times.append(time.perf_counter())


def wait_for_device() -> None:
    """Wait until a GPU, if there is one, has done all that it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_trainer_of(words: list[str]) -> ElectraTrainer:
    """Return the trainer of a run without evaluation, from options of run_pretraining.py."""
    only_training = {
        "eval_strategy": "no",
        "save_strategy": "no",
        "validation_fraction": 0,
        "report_to": "none",
        "disable_tqdm": True,
    }
    args = parse_pretraining_arguments([*as_flags(only_training), *words])
    run = open_run(args)
    data = load_data(args, None)
    args, model = prepare_model(args, run, data)
    provenance = provenance_of(args.used_values(), data.text_provenance, args.training.segments_per_step)
    return ElectraTrainer(model, args.training, data, callbacks=[], objective=args.objective, provenance=provenance)


def bare_loop(trainer: ElectraTrainer, is_plain: bool, precision: str) -> Callable[[int], float]:
    """Return a function that takes a number of steps in a bare loop and returns the mean seconds of a step.

    Args:
        trainer: maker of batches; its networks and learning rate are those of the loop.
        is_plain: train `PlainElectra` of examples/ in place of our model, and take it out of the trainer.
        precision: key of `DTYPES`.
    """
    device = trainer.args.device
    model: torch.nn.Module = trainer.model
    if is_plain:
        config = trainer.model.config
        model = PlainElectra(config.generator, config.discriminator, config.mask_token_id, config.special_token_ids)
        trainer.model = trainer.model_wrapped = model  # so that ours takes no memory here
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=trainer.args.learning_rate, fused=True)
    # A plain loop feeds a plain loader, so that both have the batch at hand.
    size = trainer.args.train_batch_size
    positions = [list(range(number * size, (number + 1) * size)) for number in range(4)]
    batches = [trainer.data_collator(trainer.train_dataset.__getitems__(p)) for p in positions]

    def take(steps: int) -> float:
        started = time.perf_counter()
        for turn in range(steps):
            batch = {name: value.to(device) for name, value in batches[turn % len(batches)].items()}
            with pretraining_trainer.computing(device):
                with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                    if is_plain:
                        ids = batch["input_ids"]
                        loss = model(ids, batch.get("attention_mask", torch.ones_like(ids)))
                    else:
                        loss = model(**batch).loss
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), trainer.args.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
        wait_for_device()
        return (time.perf_counter() - started) / steps

    return take


def through_trainer(trainer: ElectraTrainer) -> float:
    """Return the mean seconds of a step of `train()`, without those of the warm-up."""
    ends = StepTimes()
    trainer.add_callback(ends)
    trainer.optimizer = trainer.lr_scheduler = None
    trainer.train()
    trainer.remove_callback(ends)
    return (ends.times[1] - ends.times[0]) / (trainer.args.max_steps - WARM_UP)


def peak_memory() -> int:
    """Return the peak of the memory in bytes: of the allocator on a GPU, of the process elsewhere."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def computing_plainly(device: torch.device, threads: int | None = None) -> Iterator[None]:
    """Compute in the block as torch does: the plain way's `computing`, whose arguments it has."""
    yield


def start(way: str, precision: str, options: argparse.Namespace) -> None:
    """Make the trainer of a way, plain or ours, in this process, and fill `ANSWERS`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the table alone is printed
    if way == "plain":  # nothing of what ours does to its process or its networks
        pretraining_trainer.computing = computing_plainly
        pretraining_model.tune_for_cpu = lambda model: None
    else:
        keep_freed_memory()
    folder = tempfile.TemporaryDirectory()
    values = {
        "model_size": options.size,
        "train_file": options.train_file,
        "tokenizer_path": options.tokenizer_path,
        "max_length": options.length,
        "per_device_train_batch_size": options.batch,
        "bf16": precision == "bf16",
        "max_steps": options.steps + WARM_UP,
        "logging_steps": 10**6,
        "output_dir": folder.name,
    }
    trainer = make_trainer_of([*as_flags(values), *options.run_options])
    take = bare_loop(trainer, way == "plain", precision)
    take(WARM_UP)
    ANSWERS["folder"] = folder.cleanup
    ANSWERS["step"] = lambda: take(options.steps)
    ANSWERS["train"] = lambda: through_trainer(trainer)
    ANSWERS["peak"] = lambda: measure_matmul_flops(trainer.args.device, DTYPES[precision], 3.0)
    ANSWERS["flops"] = lambda: trainer.plan.flops / trainer.plan.steps
    ANSWERS["memory"] = peak_memory


def answer(what: str) -> Any:
    """Return the measurement of this process that has this name in `ANSWERS`."""
    return ANSWERS[what]()


def compare(precision: str, options: argparse.Namespace) -> dict[str, str]:
    """Measure all ways in turns, and return the row of the table: medians of rates, memory, speedup and MFU."""
    context = multiprocessing.get_context("spawn")
    pools = {
        way: ProcessPoolExecutor(1, context, initializer=start, initargs=(way, precision, options))
        for way in ("plain", "ours")
    }

    def ask(way: str, what: str) -> Any:
        return pools[way].submit(answer, what).result()

    seconds: dict[str, list[float]] = {"plain": [], "ours": [], "train()": []}
    memory: dict[str, int] = {}
    for _ in range(options.rounds):
        seconds["plain"].append(ask("plain", "step"))
        seconds["ours"].append(ask("ours", "step"))
        # Before train(), which has an optimizer of its own.
        memory = memory or {way: ask(way, "memory") for way in pools}
        seconds["train()"].append(ask("ours", "train"))
    peak = ask("ours", "peak")
    flops = ask("ours", "flops")
    for way, pool in pools.items():
        ask(way, "folder")
        pool.shutdown()
    median = {way: statistics.median(values) for way, values in seconds.items()}
    tokens = options.batch * options.length
    row = {"size": options.size, "length": str(options.length), "batch": str(options.batch), "precision": precision}
    row |= {f"{way} tokens/s": f"{tokens / value:,.0f}" for way, value in median.items()}
    row |= {f"memory, {way}": f"{count / 1e9:.2f} GB" for way, count in memory.items()}
    row["speedup"] = f"{median['plain'] / median['ours']:.2f}"
    row["MFU"] = f"{100 * flops / median['train()'] / peak:.0f} % of {peak / 1e9:,.0f} GFLOP/s"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", nargs="+", required=True)
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--size", default="small", choices=["small", "base", "large"])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32, help="segments of a step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each way in a round")
    options, run_options = parser.parse_known_args()
    options.run_options = run_options  # goes to run_pretraining.py
    rows = [compare(precision, options) for precision in DTYPES]
    print(to_markdown([table_of(rows)]))


if __name__ == "__main__":
    main()
