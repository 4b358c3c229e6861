"""How fast a pre-training step is: against the plain way to write it, against Trainer's loop, against the hardware.

    python -m benchmarks.bench_pretraining --train_file corpus.txt --tokenizer_path tokenizer

Each way is a process of its own, since one of ours tunes the memory of its whole process; they take turns, so that
what else the machine does hits both alike. A turn is several steps, and the device is waited for at its end only.
Medians of the turns' mean steps, and their ratios. Batch, text, sizes, dropout, optimizer (fused AdamW) are the same.

    plain    benchmarks/plain_electra.py in a bare loop: forward, backward, clipping, optimizer
    ours     our model in the same loop
    train()  our model through `ElectraTrainer.train()`, from the end of its first steps to that of its last one

MFU is that of `train()`: FLOPs by 6 N T and attention, forward and backward, over the seconds of the step and the
rate of the largest square matrix product that the same process measured in the same precision. Memory is the peak of
the process on a CPU, of the allocator on a GPU.
"""

import argparse
import contextlib
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState

from benchmarks.plain_electra import PlainElectra
from electra.options import as_flags
from electra.pretraining import run as pretraining_run
from electra.pretraining.data import load_data
from electra.pretraining.model import build_model
from electra.pretraining.options import parse_arguments, resolve
from electra.pretraining.plan import make_plan
from electra.pretraining.run import make_trainer
from electra.pretraining.run_folder import open_run
from electra.pretraining.trainer import ElectraTrainer
from electra.report.blocks import table_of, to_markdown
from electra.runtime.hardware import measure_matmul_flops

WARM_UP = 3
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def flags(case: dict[str, Any], options: argparse.Namespace, folder: str) -> list[str]:
    """Of run_pretraining.py."""
    values = {
        "model_size": case["size"],
        "train_file": options.train_file,
        "tokenizer_path": options.tokenizer_path,
        "max_length": case["length"],
        "per_device_train_batch_size": case["batch"],
        "bf16": case["precision"] == "bf16",
        "max_steps": options.steps + WARM_UP,
        "output_dir": folder,
        "cache_dir": options.cache_dir,
        "eval_strategy": "no",
        "save_strategy": "no",
        "logging_steps": 10**6,
        "report_to": "none",
        "disable_tqdm": True,
        "validation_fraction": 0,
    }
    return [*as_flags(values), *options.rest]


class Ends(TrainerCallback):
    """When the steps of the warm-up, and all steps, have ended on the device."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step in (WARM_UP, state.max_steps):
            _wait()
            self.times.append(time.perf_counter())


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make(case: dict[str, Any], options: argparse.Namespace, folder: str) -> tuple[ElectraTrainer, float]:
    """The trainer of a run, and its FLOPs per step."""
    args = parse_arguments(flags(case, options, folder))
    run = open_run(args)
    data = load_data(args, run.checkpoint)
    args = resolve(args, run, len(data.policy), has_held_out=data.evaluation is not None)
    model = build_model(args, data.tokenizer)
    plan = make_plan(args, model, data)
    trainer = make_trainer(args, model, data, plan, None, [])
    return trainer, plan.flops / plan.steps


def bare_loop(trainer: ElectraTrainer, is_plain: bool, precision: str) -> Callable[[int], float]:
    """A function that takes some steps and says how many seconds each of them took."""
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
        _wait()
        return (time.perf_counter() - started) / steps

    return take


def through_trainer(trainer: ElectraTrainer) -> float:
    """Seconds of a step of a short run, but for the first ones."""
    ends = Ends()
    trainer.add_callback(ends)
    trainer.optimizer = trainer.lr_scheduler = None
    trainer.train()
    trainer.remove_callback(ends)
    return (ends.times[1] - ends.times[0]) / (trainer.args.max_steps - WARM_UP)


def peak_memory() -> int:
    """Bytes, of the allocator on a GPU, of the process elsewhere."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(way: str, case: dict[str, Any], options: argparse.Namespace, connection: Connection) -> None:
    """A process: takes a turn whenever it is asked to."""
    torch.set_num_threads(options.threads)
    os.environ["PYTHONWARNINGS"] = "ignore"
    with contextlib.ExitStack() as stack:
        silence = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(contextlib.redirect_stdout(silence))
        stack.enter_context(contextlib.redirect_stderr(silence))
        if way == "plain":  # nothing of what ours does to its process or its networks
            pretraining_run.tune_process = lambda device: None
            pretraining_run.tune_networks = lambda model: None
        trainer, flops = make(case, options, stack.enter_context(tempfile.TemporaryDirectory()))
        take = bare_loop(trainer, way == "plain", case["precision"])
        take(WARM_UP)
        answers: dict[str, Callable[[], Any]] = {
            "step": lambda: take(options.steps),
            "train": lambda: through_trainer(trainer),
            "peak": lambda: measure_matmul_flops(trainer.args.device, DTYPES[case["precision"]], 3.0),
            "memory": peak_memory,
        }
        connection.send(flops)
        while (asked := connection.recv()) != "end":
            connection.send(answers[asked]())
    connection.close()


def compare(case: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of all ways, by turns, and what follows from them."""
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:  # whatever happens, no process outlives this one
        ends, processes, flops = {}, [], 0.0
        for way in ("plain", "ours"):
            ends[way], other = context.Pipe()
            processes.append(context.Process(target=work, args=(way, case, options, other)))
            processes[-1].start()
            stack.callback(processes[-1].terminate)
            other.close()
            flops = ends[way].recv()

        def ask(way: str, what: str) -> Any:
            ends[way].send(what)
            return ends[way].recv()

        seconds: dict[str, list[float]] = {"plain": [], "ours": [], "train": []}
        memory: dict[str, int] = {}
        for _ in range(options.rounds):
            seconds["plain"].append(ask("plain", "step"))
            seconds["ours"].append(ask("ours", "step"))
            # Before train(), which has an optimizer of its own.
            memory = memory or {way: ask(way, "memory") for way in ends}
            seconds["train"].append(ask("ours", "train"))
        peak = ask("ours", "peak")
        for way in ends:
            ends[way].send("end")
        for process in processes:
            process.join()
    median = {way: statistics.median(values) for way, values in seconds.items()}
    tokens = case["batch"] * case["length"]
    return {
        **case,
        "tokens_per_second": {way: tokens / value for way, value in median.items()},
        "speedup": median["plain"] / median["ours"],
        "memory_bytes": memory,
        "matmul_flops": peak,
        "mfu": flops / median["train"] / peak,
    }


def row_of(case: dict[str, Any]) -> dict[str, str]:
    rates = case["tokens_per_second"]
    row = {name: str(case[name]) for name in ("size", "length", "batch", "precision")}
    row |= {f"{way} tokens/s": f"{rate:,.0f}" for way, rate in rates.items()}
    row |= {f"memory, {way}": f"{count / 1e9:.2f} GB" for way, count in case["memory_bytes"].items()}
    row["speedup"] = f"{case['speedup']:.2f}"
    row["MFU"] = f"{100 * case['mfu']:.0f} % of {case['matmul_flops'] / 1e9:,.0f} GFLOP/s"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", nargs="+", required=True)
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--size", default="small", choices=["small", "base", "large"])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32, help="segments of a step")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each way in a round")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cache_dir", default="cache")
    options, rest = parser.parse_known_args()
    options.rest = rest  # goes to run_pretraining.py
    found = []
    for precision in options.precisions:
        case = {"size": options.size, "length": options.length, "batch": options.batch, "precision": precision}
        found.append(compare(case, options))
    print(to_markdown([table_of([row_of(case) for case in found])]))


if __name__ == "__main__":
    main()
