"""The number of threads of a pre-training run on a CPU: given, that of the resumed run, or chosen by timed steps."""

import logging
from collections.abc import Callable
from typing import Any

import torch

from electra.data.segments import SegmentCollator, TrainingSegments
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.configuration import Configuration, seconds_of
from electra.pretraining.data import PretrainingData
from electra.pretraining.run_folder import Run
from electra.runtime.device import tune_networks, tune_process
from electra.runtime.threads import choose_threads, most_threads, threads_of_user

logger = logging.getLogger(__name__)


def set_threads(args: Configuration, run: Run, model: ElectraForJointPretraining, data: PretrainingData) -> int | None:
    """Let torch use the run's number of threads, and return it; None on a GPU, unless it is given."""
    training = args.training
    recorded = run.options.get("threads")
    if training.device.type != "cpu":  # which computes little on the cores
        return training.threads or recorded
    given = training.threads if "threads" in args.flags else threads_of_user() or training.threads
    if given and recorded and given != recorded:
        logger.warning(
            f"threads        {given} instead of {recorded}: rounding differs, so the result is not bit-equal to that "
            "of an uninterrupted run"
        )
    number = given or recorded
    is_elsewhere = training.device_flops is not None  # only a plan for another device
    is_compound = training.torch_compile or training.fsdp or training.deepspeed  # its step cannot be taken by itself
    if number is None and not (run.checkpoint or is_elsewhere or is_compound):
        seconds = seconds_of(training.budget) if training.budget else None
        return choose_threads(make_step(args, model, data), steps=training.max_steps, seconds=seconds)
    number = number or most_threads()
    torch.set_num_threads(number)
    return number


def make_step(args: Configuration, model: ElectraForJointPretraining, data: PretrainingData) -> Callable[[], None]:
    """Return a function that does the forward and the backward pass of the first batch, and changes no weights."""
    training = args.training
    tokenizer = data.tokenizer
    collator = SegmentCollator(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    size = training.train_batch_size
    segments = TrainingSegments(data.policy, num_samples=size, seed=training.seed)
    batch: dict[str, Any] = collator(segments.__getitems__(list(range(size))))
    tune_process(training.device)
    tune_networks(model)
    model.train()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(training.bf16)):
            loss = model(**batch).loss
        loss.backward()
        model.zero_grad(set_to_none=True)

    return step
