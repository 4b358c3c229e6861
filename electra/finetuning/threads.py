"""The number of threads of an evaluation on a CPU: given, that of its earlier commands, or chosen by timed steps."""

import copy
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from accelerate import PartialState

from electra.finetuning.data import IGNORED
from electra.finetuning.evaluation import Evaluation, on_main
from electra.finetuning.runner import PlannedTask
from electra.io.files import read_json
from electra.report.results import ENVIRONMENT_NAME
from electra.runtime.device import tune_networks, tune_process
from electra.runtime.threads import choose_threads, threads_of_user

logger = logging.getLogger(__name__)


def set_threads(evaluation: Evaluation, to_do: list[PlannedTask]) -> int | None:
    """Let torch use the evaluation's number of threads, and return it.

    Returns:
        None on a GPU, unless the number is given, and if there is nothing to do and no number yet.
    """
    tuning = evaluation.args.tuning
    path = evaluation.folder / ENVIRONMENT_NAME
    recorded: int | None = on_main(lambda: read_json(path).get("threads") if path.is_file() else None)
    if PartialState().device.type != "cpu":  # which computes little on the cores
        if tuning.threads:
            torch.set_num_threads(tuning.threads)
        return tuning.threads or recorded
    given = tuning.threads or threads_of_user()
    if given and recorded and given != recorded and to_do:
        logger.warning(
            f"threads        {given} instead of {recorded}: rounding differs, so the runs to come are not bit-equal "
            "to those of an uninterrupted evaluation"
        )
    number = given or recorded
    if number is None and to_do:
        longest = max(to_do, key=lambda p: p.steps * len(p.seeds))
        steps = sum(p.steps * len(p.seeds) for p in to_do)
        return choose_threads(make_step(evaluation, longest), steps=steps)
    if number is not None:
        torch.set_num_threads(number)
    return number


def make_step(evaluation: Evaluation, p: PlannedTask) -> Callable[[], None]:
    """Return a function that does the forward and the backward pass of a batch of rows of median length."""
    by_length = np.argsort(p.data.train.lengths, kind="stable")
    size = min(len(by_length), p.tuning.per_device_train_batch_size)
    first = (len(by_length) - size) // 2
    rows = [p.data.train[row] for row in by_length[first : first + size].tolist()]
    batch: dict[str, Any] = p.task.collator(evaluation.encoder.tokenizer.pad_token_id)(rows)
    labels = batch.pop("labels")
    count = (labels != IGNORED).sum()
    with torch.random.fork_rng(devices=[]):
        model = p.task.head(copy.deepcopy(evaluation.encoder.model), p.tuning, p.data)
    tune_process(torch.device("cpu"))
    tune_networks(model)
    model.train()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=p.tuning.bf16):
            p.task.loss(model(**batch), labels, count).backward()
        model.zero_grad(set_to_none=True)

    return step
