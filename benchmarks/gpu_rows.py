"""The rows of bench_gpu.py: what each measures. A row is a process; it prepares, waits for its turn, and measures.

    python -m benchmarks.gpu_rows small_default FOLDER --token_cache FOLDER       bench_gpu.py starts these

A number is written to FOLDER/ROW.json as soon as it is there. When a row is prepared (networks are built and compiled,
a few steps are taken), FOLDER/ROW.ready appears, and the row goes on when FOLDER/ROW.go does. Training, evaluation,
checkpoints and fine-tuning are those of the commands; only their callbacks are added to.
"""

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers.trainer
from safetensors.torch import load_file
from torch import Tensor
from torch.autograd import DeviceType
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer
from torch.utils.data import Dataset
from transformers import TrainerCallback

from benchmarks.bench_pretraining import bare_loop, make_trainer_of, wait_for_device
from electra.base.files import read_json, write_json
from electra.base.parser import as_flags
from electra.core.segments import Segment, TrainingSegments, segment_length
from electra.pretraining.run import main as pretrain
from electra.pretraining.trainer import ElectraTrainer
from electra.runtime.device import device_name, measure_matmul_flops, tune_compiler
from electra.tasks.glue.task import main as glue

TINY = {
    "model_size": "small",
    "vocab_size": 300,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "generator_size": 0.5,
    "max_documents": 200,
}
"""Options of a rehearsal: its networks in place of those of the recipes, and little text."""
OF_TEXT = ("vocab_size", "max_documents")
"""Options of `TINY` for a text, which a token cache does not take."""
VOCABULARY = 30_522
"""Tokens of the recipes' vocabulary, on which a tenth of a step of Small depends: LM head, softmax, samples."""
WARM_UP, PROFILED, WATCHED = 5, 5, 5
"""Numbers of steps: before the turn of a row, under the profiler, and with warnings of waits."""
LEARNS_FOR = 45.0
"""Seconds of steps of the row `learn`."""


class Bench:
    """The bench of a row: its device, sizes and files, and short runs.

    Args:
        folder: folder of the files of all rows.
        row: name of this row.
        is_rehearsal: whether sizes are tiny.
        token_cache: folder of tokens; without it, the text is the builtin one.
        glue_dir: folder with QNLI; without it, fine-tuning is that of the demonstration.
    """

    def __init__(
        self,
        folder: Path,
        row: str,
        *,
        is_rehearsal: bool,
        token_cache: Path | None = None,
        glue_dir: Path | None = None,
    ) -> None:
        self.folder = folder
        self.row = row
        self.is_rehearsal = is_rehearsal
        self.glue_dir = glue_dir
        self.numbers: dict[str, Any] = {}
        self.began = time.monotonic()
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.text: dict[str, Any] = {"dataset_name": "builtin"}
        if token_cache is not None:
            self.text = {"token_cache": str(token_cache)}

    @property
    def has_gpu(self) -> bool:
        """Return True if the row measures a GPU."""
        return self.device.type == "cuda"

    def tell(self, **numbers: Any) -> None:
        """Add numbers to the row's file, which keeps them if the row fails later."""
        self.numbers |= numbers
        write_json(self.numbers, self.folder / f"{self.row}.json")

    def ready(self) -> None:
        """Say that the row is prepared, and wait for its turn; give back the GPU's memory that is not needed."""
        wait_for_device()
        if self.has_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        self.tell(device=device_name(self.device), seconds_to_prepare=round(time.monotonic() - self.began, 1))
        (self.folder / f"{self.row}.ready").touch()
        while not (self.folder / f"{self.row}.go").exists():
            time.sleep(0.05)

    def seconds(self, statement: str, **names: Any) -> float:
        """Return the median seconds of a statement, which is repeated for half a second.

        Args:
            names: values of the names in the statement.
        """
        timer = Timer(statement, globals=names, num_threads=torch.get_num_threads())
        return timer.blocked_autorange(min_run_time=0.05 if self.is_rehearsal else 0.5).median

    def options(self, size: str = "small", batch: int = 128, length: int = 128, **options: Any) -> dict[str, Any]:
        """Return options of run_pretraining.py; a rehearsal has its own sizes.

        Args:
            size: name of a recipe.
            batch, length: segments of a batch, and tokens of a segment.
        """
        sizes: dict[str, Any] = {"model_size": size}
        if self.is_rehearsal:
            has_tokens = "token_cache" in self.text
            sizes = {name: value for name, value in TINY.items() if not (has_tokens and name in OF_TEXT)}
            batch, length = 4, min(length, 32)
        return {
            **sizes,
            **self.text,
            "cache_dir": str(self.folder / "cache"),
            "output_dir": str(self.folder / self.row),
            "per_device_train_batch_size": batch,
            "max_length": length,
            "warmup_steps": 2,
            "disable_tqdm": True,
            "report_to": "none",
            **options,
        }

    def trainer(self, is_full: bool = False, **options: Any) -> ElectraTrainer:
        """Return the trainer of a run that only trains; with `is_full` no row has padding.

        Raises:
            SystemExit: the tokens are not those of a vocabulary of 30,522.
        """
        run_options = self.options(**options)
        trainer = make_trainer_of(as_flags(run_options))
        vocabulary = trainer.model.config.discriminator.vocab_size
        if not self.is_rehearsal and vocabulary != VOCABULARY:
            raise SystemExit(f"error: --token_cache has a vocabulary of {vocabulary}, not BERT's of {VOCABULARY}")
        if is_full:
            trainer.train_dataset = FullRows(trainer.train_dataset, run_options["max_length"])
        return trainer

    def speed(self, steps: int = 100, **options: Any) -> None:
        """Measure `train()` with its real loader: the seconds of a step in three windows, then kernels and waits.

        Args:
            steps: steps of a window.
            options: see `trainer`.
        """
        steps = 2 if self.is_rehearsal else steps
        # Log lines, which wait for the device, fall into the windows, and not into the steps that are watched.
        last = WARM_UP + 3 * steps + PROFILED + 2 + WATCHED
        trainer = self.trainer(max_steps=last + 1, logging_steps=steps, **options)
        plan = trainer.plan
        self.tell(
            tokens_per_step=plan.tokens_per_step,
            flops_per_step=plan.flops / plan.steps,
            is_compiled=bool(trainer.args.torch_compile),
        )
        trainer.add_callback(StepMeter(self, steps))
        trainer.train()
        losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
        self.tell(losses=losses, is_still_compiled=bool(trainer.args.torch_compile))

    def steps_per_second(self) -> float | None:
        """Return the rate that `small_default`, or else `small_eager`, has measured; None if neither has."""
        for row in ("small_default", "small_eager"):
            file = self.folder / f"{row}.json"
            numbers = read_json(file) if file.is_file() else {}
            if numbers.get("seconds_per_step"):
                return 1 / min(numbers["seconds_per_step"])
        return None


class FullRows(Dataset[Any]):
    """The samples of a run, in which the tokens of a row are repeated until the row is full."""

    def __init__(self, samples: TrainingSegments, length: int) -> None:
        self.samples = samples
        self.length = length

    def __len__(self) -> int:
        return len(self.samples)

    def __getitems__(self, positions: Sequence[int]) -> list[Segment]:
        rows = []
        for row in self.samples.__getitems__(positions):
            assert isinstance(row, Segment)
            missing = self.length - segment_length(row)
            rows.append(row._replace(first=np.resize(row.first, len(row.first) + missing)))
        return rows


class StepMeter(TrainerCallback):
    """A callback that measures the steps of a row.

    After the warm-up it waits for the turn of the row, times three windows, profiles some steps, and then counts how
    often others wait for the GPU.
    """

    def __init__(self, bench: Bench, steps: int) -> None:
        self.bench = bench
        self.steps = steps
        self.profiled = range(WARM_UP + 3 * steps, WARM_UP + 3 * steps + PROFILED)
        self.watched = range(self.profiled.stop + 2, self.profiled.stop + 2 + WATCHED)
        self.seconds: list[float] = []
        self.started = 0.0
        self.profiler: Any = None
        self.catcher: Any = None
        self.caught: list[warnings.WarningMessage] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.profiled.start:
            gpu = [ProfilerActivity.CUDA] if self.bench.has_gpu else []
            self.profiler = profile(activities=[ProfilerActivity.CPU, *gpu])
            self.profiler.start()
        if state.global_step == self.watched.start:
            self.catcher = warnings.catch_warnings(record=True)
            self.caught = self.catcher.__enter__()
            warnings.simplefilter("always")
            if self.bench.has_gpu:
                torch.cuda.set_sync_debug_mode("warn")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        if step == WARM_UP:
            self.bench.ready()
            self.started = time.perf_counter()
        elif WARM_UP < step <= self.profiled.start and (step - WARM_UP) % self.steps == 0:
            wait_for_device()
            now = time.perf_counter()
            self.seconds.append((now - self.started) / self.steps)
            self.started = now
            self.bench.tell(seconds_per_step=self.seconds, **peak_memory())
        elif step == self.profiled.stop:
            wait_for_device()
            try:
                self.profiler.stop()
                self.bench.tell(**kernels(self.profiler))
            except RuntimeError as error:  # a driver that lets nobody profile
                self.bench.tell(profile_error=str(error)[:300])
        elif step == self.watched.stop:
            if self.bench.has_gpu:
                torch.cuda.set_sync_debug_mode("default")
            self.catcher.__exit__(None, None, None)
            places = [f"{w.filename}:{w.lineno}" for w in self.caught if "synchroniz" in str(w.message)]
            waits = {where: places.count(where) / WATCHED for where in sorted(set(places))}
            self.bench.tell(waits=waits, waits_per_step=len(places) / WATCHED)


def peak_memory() -> dict[str, float]:
    """Return `peak_bytes`, the most bytes that tensors have taken on the GPU; {} without a GPU."""
    return {"peak_bytes": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}


def kernels(profiler: Any) -> dict[str, Any]:
    """Return the number of kernels of a step, the milliseconds that the GPU is busy with them, and the longest ones.

    Args:
        profiler: profiler of `PROFILED` steps, which has ended.
    """
    times: dict[str, list[float]] = {}
    for event in profiler.events():
        is_kernel = event.device_type == DeviceType.CUDA and not event.is_user_annotation
        if is_kernel and not event.name.startswith(("Optimizer", "##")):
            times.setdefault(event.name, []).append(event.time_range.elapsed_us())
    longest = sorted(times.items(), key=lambda item: -sum(item[1]))[:25]
    return {
        "kernels_per_step": round(sum(map(len, times.values())) / PROFILED),
        "busy_ms_per_step": sum(map(sum, times.values())) / PROFILED / 1000,
        "longest_kernels_ms": {name[:110]: round(sum(times) / PROFILED / 1000, 3) for name, times in longest},
    }


class Clock(TrainerCallback):
    """A callback that measures the rate of steps, and the seconds of each evaluation and checkpoint."""

    def __init__(self) -> None:
        self.since = 0.0
        self.started = 0.0
        self.seconds: dict[str, list[float]] = {"evaluations": [], "checkpoints": []}
        self.rows_per_second = 0.0
        """Rows in a second of all steps but the warm-up, without evaluations and checkpoints."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.since = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_last = state.global_step >= state.max_steps
        if state.global_step != WARM_UP and not (control.should_evaluate or control.should_save or is_last):
            return
        wait_for_device()
        self.since = time.perf_counter()
        if state.global_step == WARM_UP:
            self.started = self.since
        elif is_last and state.global_step > WARM_UP:
            rows = (state.global_step - WARM_UP) * args.train_batch_size * args.gradient_accumulation_steps
            self.rows_per_second = rows / (self.since - self.started)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end("evaluations")

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end("checkpoints")

    def _end(self, what: str) -> None:
        now = time.perf_counter()
        self.seconds[what].append(now - self.since)
        self.started += now - self.since
        self.since = now


@contextmanager
def watching(command: Callable[[list[str]], None], options: dict[str, Any]) -> Iterator[Clock]:
    """Run a command in this process, and yield the clock of all Trainers that it makes.

    Args:
        command: `main` of the command.
        options: options of the command, by name.
    """
    clock = Clock()
    transformers.trainer.DEFAULT_CALLBACKS.append(clock)
    try:
        command(as_flags(options))
        yield clock
    finally:
        transformers.trainer.DEFAULT_CALLBACKS.remove(clock)


# ---- the rows


def peaks(bench: Bench) -> None:
    """Measure the rates of matrix products in bf16 and of copies, and the microseconds of a launch."""
    bench.ready()
    device = bench.device
    bench.tell(torch=torch.__version__, cuda=torch.version.cuda, cores=os.cpu_count())
    seconds = 0.1 if bench.is_rehearsal else 3.0
    bench.tell(matmul_flops=measure_matmul_flops(device, torch.bfloat16, seconds))
    tokens = 64 if bench.is_rehearsal else 16_384
    shapes = {
        "small 256x256": (tokens, 256, 256),
        "small 256x1024": (tokens, 256, 1024),
        "base 768x768": (2 * tokens, 768, 768),
        "base 768x3072": (2 * tokens, 768, 3072),
        "head of small": (tokens // 7, 128, VOCABULARY + 6),
    }
    rates = {}
    for name, (rows, inputs, outputs) in shapes.items():
        left = torch.randn(rows, inputs, device=device, dtype=torch.bfloat16)
        right = torch.randn(outputs, inputs, device=device, dtype=torch.bfloat16)
        rates[name] = 2.0 * rows * inputs * outputs / bench.seconds("f(a, b)", f=F.linear, a=left, b=right)
    bench.tell(matmul_flops_of=rates)
    block = torch.empty(2**20 if bench.is_rehearsal else 2**30, dtype=torch.uint8, device=device)
    copied = bench.seconds("a.copy_(b)", a=torch.empty_like(block), b=block)
    bench.tell(copy_bytes_per_second=2 * block.nbytes / copied)
    scalar = torch.ones(1, device=device)
    launched = bench.seconds("for _ in range(1000): scalar.mul_(1.0)", scalar=scalar)
    bench.tell(launch_microseconds=launched * 1000)


def small_default(bench: Bench) -> None:
    """Measure ELECTRA-Small at 128 x 128, full rows, as a run is by default: compiled on a GPU."""
    # A rehearsal is compiled, too, by what needs no compiler.
    options: dict[str, Any] = {} if bench.has_gpu else {"torch_compile": True, "torch_compile_backend": "eager"}
    bench.speed(is_full=True, **options)


def small_eager(bench: Bench) -> None:
    """Measure ELECTRA-Small at 128 x 128, full rows, eagerly."""
    bench.speed(is_full=True, torch_compile=False)


def small_graphs(bench: Bench) -> None:
    """Measure ELECTRA-Small at 128 x 128, full rows, as CUDA graphs."""
    bench.speed(is_full=True, torch_compile_mode="reduce-overhead" if bench.has_gpu else None)


def small_1024(bench: Bench) -> None:
    """Measure ELECTRA-Small at 1024 x 128: larger batches, for which the GPU does not wait for the host."""
    bench.speed(20, is_full=True, batch=1024)


BASE: dict[str, Any] = {"steps": 30, "size": "base", "batch": 64, "length": 512}
"""Arguments of `Bench.speed` for ELECTRA-Base at 64 x 512."""


def base_full(bench: Bench) -> None:
    """Measure ELECTRA-Base at 64 x 512 without padding: attention without a mask."""
    bench.speed(**BASE, is_full=True)


def base_eager(bench: Bench) -> None:
    """Measure ELECTRA-Base at 64 x 512 without padding, eagerly."""
    bench.speed(**BASE, is_full=True, torch_compile=False)


def base_padded(bench: Bench) -> None:
    """Measure ELECTRA-Base at 64 x 512 with short documents padded: attention with a mask."""
    bench.speed(**BASE)


def base_packed(bench: Bench) -> None:
    """Measure ELECTRA-Base at 64 x 512 with documents that share rows: attention with a mask of segments."""
    bench.speed(**BASE, segment_policy="packed")


def plain(bench: Bench, is_compiled: bool = False) -> None:
    """Measure ELECTRA-Small at 128 x 128 in a bare loop, plainly written and as our model, eagerly or compiled."""
    takes = {}
    tokens = 0
    for way in ("plain", "ours"):
        trainer = bench.trainer(is_full=True, torch_compile=False, max_steps=10)
        tokens = trainer.plan.tokens_per_step
        takes[way] = bare_loop(trainer, way == "plain", "bf16")
        if is_compiled:
            if way == "ours" and bench.has_gpu:
                tune_compiler()
            trainer.model.compile(backend="inductor" if bench.has_gpu else "eager", dynamic=False)
        takes[way](3)
    bench.ready()
    rates: dict[str, list[float]] = {way: [] for way in takes}
    for _ in range(3):
        for way, take in takes.items():
            rates[way].append(tokens / take(2 if bench.is_rehearsal else 50))
            bench.tell(**{f"{name}_tokens_per_second": values for name, values in rates.items()})


def plain_compiled(bench: Bench) -> None:
    """Measure ELECTRA-Small at 128 x 128 in a bare loop, both ways compiled."""
    plain(bench, is_compiled=True)


def correct(bench: Bench) -> None:
    """Compare losses, gradients and samples with fp32 on a CPU, without dropout; count skipped steps of nan."""
    bench.ready()
    without: dict[str, Any] = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "batch": 32,
        "torch_compile": False,
    }
    trainer = bench.trainer(**without, is_full=True, max_steps=6)
    batch = trainer.data_collator(trainer.train_dataset.__getitems__(range(trainer.args.train_batch_size)))
    masked = {**batch, "attention_mask": torch.ones_like(batch["input_ids"])}
    model = trainer.model.to(bench.device).train()
    _, wanted, wanted_samples = loss_and_gradient(copy.deepcopy(model).cpu(), batch, None)

    def compare(name: str, inputs: dict[str, Tensor], dtype: torch.dtype | None) -> None:
        losses, gradient, samples = loss_and_gradient(model, inputs, dtype)
        error = float((gradient - wanted).norm() / wanted.norm())
        same = float((samples == wanted_samples).double().mean())
        bench.tell(**{name: {"losses": losses, "gradient_error": error, "same_samples": same}})

    compare("fp32", batch, None)
    compare("bf16", batch, torch.bfloat16)
    compare("bf16_with_mask", masked, torch.bfloat16)

    spoiled = bench.trainer(**without, max_steps=8, logging_steps=8)

    def spoil(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        output.loss = output.loss * (torch.nan if spoiled.state.global_step in (2, 3) else 1.0)
        return output

    spoiled.model.register_forward_hook(spoil)
    spoiled.train()
    lines = [logs for logs in spoiled.state.log_history if "skipped_steps" in logs]
    bench.tell(skipped=sum(logs["skipped_steps"] for logs in lines), skipped_wanted=2)

    if bench.has_gpu:
        tune_compiler()
    model.compile(backend="inductor" if bench.has_gpu else "eager", dynamic=False)
    compare("bf16_compiled", batch, torch.bfloat16)


def loss_and_gradient(
    network: Any, batch: dict[str, Tensor], dtype: torch.dtype | None
) -> tuple[list[float], Tensor, Tensor]:
    """Return the losses of a batch, the gradient as one vector in fp64 on the CPU, and the samples, (B, L)."""
    network.zero_grad()
    device = next(network.parameters()).device
    inputs = {name: values.to(device) for name, values in batch.items()}
    with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
        output = network(**inputs)
    output.loss.backward()
    gradient = torch.cat([p.grad.flatten().cpu().double() for p in network.parameters() if p.grad is not None])
    losses = [float(loss.detach()) for loss in (output.loss, output.generator_loss, output.main_loss)]
    return losses, gradient, output.sampled_ids.cpu()


def resumed(bench: Bench, **options: Any) -> None:
    """Run the command twice, and once more from the checkpoint of its middle: compare weights, and time its parts."""
    bench.ready()
    half = 4 if bench.is_rehearsal else 30
    steps: dict[str, Any] = dict.fromkeys(("eval_steps", "save_steps", "logging_steps"), half)
    few: dict[str, Any] = {"max_eval_segments": 64, "validation_fraction": 0.02, "torch_compile": False}
    run_options = bench.options(max_steps=2 * half, **steps, **few, **options)
    folder = bench.folder / bench.row
    for run in ("first", "again"):
        began = time.perf_counter()
        with watching(pretrain, {**run_options, "experiment_name": run}) as clock:
            bench.tell(**{f"seconds_{run}": time.perf_counter() - began, **clock.seconds})
    middle = folder / "resumed" / f"checkpoint-{half}"
    shutil.copytree(folder / "first" / middle.name, middle)
    with watching(pretrain, {**run_options, "resume_from_checkpoint": str(middle)}):
        first, again, resumed = (
            weights(folder / run / f"checkpoint-{2 * half}") for run in ("first", "again", "resumed")
        )
    bench.tell(is_again_equal=torch.equal(first, again), is_resumed_equal=torch.equal(first, resumed))
    for name, values in (("again", again), ("resumed", resumed)):
        bench.tell(**{f"difference_{name}": float((values - first).norm() / first.norm())})


def resumed_deterministic(bench: Bench) -> None:
    """Do what `resumed` does with --full_determinism."""
    resumed(bench, full_determinism=True)


def weights(checkpoint: Path) -> Tensor:
    """Return all weights of a checkpoint as one vector in fp64."""
    tensors = load_file(checkpoint / "model.safetensors")
    return torch.cat([tensors[name].flatten().double() for name in sorted(tensors)])


def tests(bench: Bench) -> None:
    """Run the tests that need a GPU."""
    bench.ready()
    if not bench.has_gpu:
        return bench.tell(note="needs a GPU")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, env={**os.environ, "ELECTRA_TEST_GPU": "1"}, stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    bench.tell(exit_code=done.returncode, last_line=done.stdout.strip().rpartition("\n")[2])


def learn(bench: Bench) -> None:
    """Pre-train by default settings for a minute: does the discriminator learn, and how long does each part take?"""
    bench.ready()
    steps = 8 if bench.is_rehearsal else int(max(800, LEARNS_FOR * (bench.steps_per_second() or 50)))
    few: dict[str, Any] = {"max_eval_segments": 16 if bench.is_rehearsal else 1000, "validation_fraction": 0.02}
    run_options = bench.options(
        max_steps=steps,
        eval_steps=max(1, steps // 4),
        save_steps=max(1, steps // 2),
        logging_steps=max(1, steps // 20),
        **few,
    )
    run_options |= {"warmup_steps": min(1000, steps // 4), "experiment_name": "run"}
    began = time.perf_counter()
    with watching(pretrain, run_options) as clock:
        bench.tell(steps=steps, seconds=time.perf_counter() - began, **clock.seconds)
    folder = bench.folder / bench.row / "run"
    history = read_json(folder / "trainer_state.json")["log_history"]
    name = "eval_discriminator_auc"
    bench.tell(
        auc={logs["step"]: round(logs[name], 4) for logs in history if name in logs},
        tokens_per_second_by_log=[logs["tokens_per_second"] for logs in history if "tokens_per_second" in logs],
        held_out=read_json(folder / "metrics.json")["held_out"],
    )


def finetune(bench: Bench) -> None:
    """Fine-tune the network of `learn` by the command; on a GPU also without cuDNN's attention."""
    bench.ready()
    source = bench.folder / "learn" / "run"
    if not (source / "discriminator").is_dir():  # `learn` failed, or is not one of the rows
        source = bench.folder / bench.row / "run"
        pretrain(
            as_flags(bench.options(max_steps=4, eval_strategy="no", validation_fraction=0, experiment_name="run"))
        )
    task: dict[str, Any] = {"tasks": "demo", "num_train_epochs": 3}
    if bench.glue_dir is not None:
        task = {"tasks": "qnli", "glue_dir": str(bench.glue_dir), "num_train_epochs": 1}
    if bench.is_rehearsal:
        task["num_train_epochs"] = 0.05
    for name in ("default", "without_cudnn")[: 2 if bench.has_gpu else 1]:
        torch.backends.cuda.enable_cudnn_sdp(name == "default")
        glue_options = {"pretrain_path": str(source), "num_seeds": 1, "disable_tqdm": True, **task}
        glue_options |= {"output_dir": str(bench.folder / bench.row), "experiment_name": name}
        began = time.perf_counter()
        with watching(glue, glue_options) as clock:
            seconds = time.perf_counter() - began
        (result,) = map(json.loads, (bench.folder / bench.row / name / "results.jsonl").read_text().splitlines())
        rate = clock.rows_per_second
        bench.tell(**{name: {"rows_per_second": rate, "seconds": seconds, "metrics": result["metrics"]}})


def attention(bench: Bench) -> None:
    """Measure milliseconds of attention, forward and backward, by mask, dropout and kernel; name torch's choice."""
    bench.ready()
    shapes = {"small": (128, 4, 128, 64), "base": (64, 12, 512, 64)}
    if bench.is_rehearsal:
        shapes = {"tiny": (2, 2, 32, 16)}
    for size, (rows, heads, length, width) in shapes.items():
        factors = some_factors(bench, rows, heads, length, width)
        document = torch.arange(length, device=bench.device) // (length // 4)
        apart = torch.where(document[:, None] == document, 0.0, torch.finfo(torch.bfloat16).min).bfloat16()
        masks = {
            "no mask": None,
            "padding": torch.zeros(rows, 1, 1, length, device=bench.device, dtype=torch.bfloat16),
            "4 documents": apart.expand(rows, 1, length, length).contiguous(),
        }
        for name, mask in masks.items():
            for dropout in (0.1, 0.0):
                attend = partial(F.scaled_dot_product_attention, attn_mask=mask, dropout_p=dropout)
                choice = torch._fused_sdp_choice(*factors, mask, dropout)
                milliseconds_by_kernel: dict[str, Any] = {"chosen": SDPBackend(choice).name}
                for kernel in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
                    with sdpa_kernel(getattr(SDPBackend, kernel)):
                        milliseconds_by_kernel[kernel] = milliseconds(bench, attend, factors)
                bench.tell(**{f"{size}, {name}, dropout {dropout}": milliseconds_by_kernel})
    for size, shape in shapes.items():
        bench.tell(**{f"{size}, 4 documents, dropout 0.0, by documents": by_documents(bench, *shape)})


def by_documents(bench: Bench, rows: int, heads: int, length: int, width: int) -> dict[str, float | str]:
    """Return milliseconds of attention within 4 documents a row, by kernels that know of documents."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    from torch.nn.attention.varlen import varlen_attn

    part = length // 4
    ends = torch.arange(0, rows * length + 1, part, device=bench.device, dtype=torch.int32)
    varlen = partial(varlen_attn, cu_seq_q=ends, cu_seq_k=ends, max_q=part, max_k=part)

    def is_same(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i // part == j // part

    blocks = create_block_mask(is_same, None, None, length, length, device=bench.device)
    compiled = torch.compile(flex_attention, dynamic=False, backend="inductor" if bench.has_gpu else "eager")
    return {
        "varlen": milliseconds(bench, varlen, some_factors(bench, rows * length, heads, width)),
        "flex": milliseconds(
            bench, partial(compiled, block_mask=blocks), some_factors(bench, rows, heads, length, width)
        ),
    }


def some_factors(bench: Bench, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return random query, key and value of a shape, in bf16, that need gradients."""
    make = partial(torch.randn, device=bench.device, dtype=torch.bfloat16, requires_grad=True)
    return make(shape), make(shape), make(shape)


def milliseconds(bench: Bench, attend: Callable[..., Any], factors: tuple[Tensor, ...]) -> float | str:
    """Return the milliseconds of attention, forward and backward; the name of the error where there is no such kernel.

    Args:
        attend: function of query, key and value.
    """
    names = {"attend": attend, "factors": factors, "ones": torch.ones_like(factors[0]), "grad": torch.autograd.grad}
    try:
        return bench.seconds("grad(attend(*factors), factors, ones)", **names) * 1000
    except Exception as error:
        return type(error).__name__


ROWS = {
    row.__name__: row
    for row in (
        peaks,
        small_default,
        small_eager,
        base_full,
        correct,
        resumed,
        learn,
        plain,
        small_graphs,
        base_padded,
        finetune,
        base_packed,
        attention,
        resumed_deterministic,
        tests,
        small_1024,
        base_eager,
        plain_compiled,
    )
}
"""Name of a row -> function that measures it, the most important first, as in bench_gpu.py."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--token_cache", type=Path)
    parser.add_argument("--glue_dir", type=Path)
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    bench = Bench(
        options.folder,
        options.row,
        is_rehearsal=options.rehearse,
        token_cache=options.token_cache,
        glue_dir=options.glue_dir,
    )
    ROWS[options.row](bench)


if __name__ == "__main__":
    main()
