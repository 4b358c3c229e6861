"""How fast training and prediction are on a machine that does other work, and on a quiet one.

    python -m benchmarks.bench_neighbours
    python -m benchmarks.bench_neighbours --work fine-tuning prediction

Neighbours are processes that only count. Networks are those of the quickstart. Each way is a process of its own, and
they take turns, so that what else the machine does hits all of them. Values are medians of the turns, tokens/s; behind
those of this package stands the number of threads.

    spins N         all cores; threads that wait spin N times (GOMP_SPINCOUNT); 300000 is what torch does by itself
    one thread      OMP_NUM_THREADS=1
    started beside  a command of this package that starts when the neighbours are there
    joined later    a command of this package that started on the quiet machine
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NEIGHBOUR = "number = 0\nwhile True: number += 1"
FIXED = {f"spins {count}": {"GOMP_SPINCOUNT": str(count)} for count in (300_000, 5000, 1000, 0)}
FIXED["one thread"] = {"OMP_NUM_THREADS": "1"}
OURS = ("started beside", "joined later")
SETTLING = 1.5
"""Seconds of a turn before it is measured: a process that has waited for its turn looks at its neighbours anew."""
ROWS = 32
LENGTH = 64
"""Rows and tokens of a batch of fine-tuning; of a prediction, four times the rows."""

# ---- a process that works


def work(kind: str, is_ours: bool) -> None:
    """Answer each line of the standard input, a number of seconds, by the tokens/s in that time."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is said does not belong to the answers
    if is_ours:
        from electra.runtime.spinning import limit_spinning

        limit_spinning()
    tokens, step = STEPS[kind](is_ours)
    step()
    torch: Any = sys.modules["torch"]  # which must not be loaded earlier
    print("ready", torch.get_num_threads(), file=answers, flush=True)

    def run(seconds: float) -> float:
        count = 0
        started = time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            step()
            count += 1
        return count * tokens / elapsed

    for line in sys.stdin:
        run(SETTLING)
        print(run(float(line)), file=answers, flush=True)


def pretraining(is_ours: bool) -> tuple[int, Callable[[], object]]:
    """Return the tokens of a step of the quickstart, and the step: forward, backward, clipping, optimizer."""
    from benchmarks.bench_pretraining import bare_loop, make_trainer_of
    from electra.runtime.threads import choose_threads

    folder = tempfile.mkdtemp()  # of the system; nothing but a lock is written
    trainer = make_trainer_of(["--config", str(ROOT / "configs/pretraining/quickstart.yaml"), "--output_dir", folder])
    take = bare_loop(trainer, is_plain=False, precision="bf16" if trainer.args.bf16 else "fp32")
    if is_ours:
        choose_threads(lambda: take(1), steps=trainer.args.max_steps)
    return trainer.plan.tokens_per_step, lambda: take(1)


def fine_tuning(is_ours: bool) -> tuple[int, Callable[[], object]]:
    """Return the tokens of a step of a classifier of the quickstart's size, and the step."""
    import torch

    from electra.runtime.threads import choose_threads

    model, batch, precision = _classifier(ROWS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        with precision:
            loss = model(**batch, labels=batch["input_ids"][:, 0] % 2).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    if is_ours:
        choose_threads(step, steps=5000)
    return ROWS * LENGTH, step


def prediction(is_ours: bool) -> tuple[int, Callable[[], object]]:
    """Return the tokens of a batch that a classifier of the quickstart's size answers, and the function for it."""
    import torch

    from electra.runtime.threads import limit_threads

    model, batch, precision = _classifier(4 * ROWS)
    model.eval()
    if is_ours:
        limit_threads()

    def step() -> None:
        with torch.inference_mode(), precision:
            model(**batch)

    return 4 * ROWS * LENGTH, step


def _classifier(rows: int) -> tuple[Any, dict[str, Any], Any]:
    """Return a classifier with fresh weights, a batch of random tokens, and the context of its precision."""
    import torch
    from transformers import AutoModelForSequenceClassification

    from electra.model.configuration import SIZE_NAMES, network_config
    from electra.pretraining.options import parse_pretraining_arguments
    from electra.runtime.device import computes_bf16, computing, keep_freed_memory, tune_networks

    sizes = parse_pretraining_arguments(["--config", str(ROOT / "configs/pretraining/quickstart.yaml")]).model
    config = network_config(
        vocab_size=2048,
        pad_token_id=0,
        model_type=sizes.discriminator_type,
        **{name: getattr(sizes, name) for name in SIZE_NAMES},
    )
    keep_freed_memory(use_cpu=True)
    computing(torch.device("cpu")).__enter__()  # to the end of the process
    model = AutoModelForSequenceClassification.from_config(config)
    tune_networks(model)
    ids = torch.randint(5, 2048, (rows, LENGTH), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return model, batch, torch.autocast("cpu", torch.bfloat16, enabled=computes_bf16(use_cpu=True))


STEPS = {"pre-training": pretraining, "fine-tuning": fine_tuning, "prediction": prediction}

# ---- turns


class Worker:
    """A process that works when it is its turn."""

    def __init__(self, kind: str, environment: dict[str, str], *, is_ours: bool) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", kind, *(["--ours"] if is_ours else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        )
        ready, _, threads = self._answer().partition(" ")
        if ready != "ready":
            raise RuntimeError(f"the process for {kind} with {environment} has failed")
        self.label = f" ({threads})" if is_ours else ""

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rate(self, seconds: float) -> float:
        """Return tokens/s of a turn of this length."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


UNSET = ("GOMP_SPINCOUNT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Let so many other processes count."""
    others = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def compare(kind: str, counts: Sequence[int], rounds: int, seconds: float) -> Iterator[dict[str, str]]:
    """Yield a row of the table for each number of neighbours."""
    with ExitStack() as stack:

        def start(environment: dict[str, str], *, is_ours: bool = False) -> Worker:
            worker = Worker(kind, environment, is_ours=is_ours)
            stack.callback(worker.end)
            return worker

        workers = {name: start(environment) for name, environment in FIXED.items()}
        workers[OURS[1]] = start({}, is_ours=True)
        for count in counts:
            with neighbours(count):
                beside = start({}, is_ours=True)
                rates: dict[str, list[float]] = {name: [] for name in (*workers, OURS[0])}
                now = {**workers, OURS[0]: beside}
                for _ in range(rounds):
                    for name, worker in now.items():
                        rates[name].append(worker.rate(seconds))
                load = os.getloadavg()[0]
                beside.end()
            row = {"work": kind, "neighbours": str(count)}
            row |= {name: f"{statistics.median(rates[name]):,.0f}{worker.label}" for name, worker in now.items()}
            yield {**row, "load": f"{load:.0f}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", nargs="+", choices=[*STEPS], default=["pre-training"])
    parser.add_argument("--neighbours", nargs="+", type=int, default=[0, 1, 4, 10])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.ours)
        return
    from electra.report.blocks import table_of, to_markdown

    rows = []
    for kind in given.work:
        for row in compare(kind, given.neighbours, given.rounds, given.seconds):
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
    print(to_markdown([table_of(rows)]))


if __name__ == "__main__":
    main()
