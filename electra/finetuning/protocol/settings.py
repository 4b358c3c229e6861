"""How each task is trained: the paper's table 7 by size of the encoder, what differs by task, and flags above both.

And what a score depends on, so that results of other settings never stand beside each other.
"""

import hashlib
import json
from dataclasses import asdict, fields
from typing import Any

import torch
from accelerate import PartialState

from electra.errors import UserError
from electra.finetuning.encoder import Encoder
from electra.finetuning.protocol.options import Arguments
from electra.finetuning.results import Result
from electra.finetuning.trainer import Hyperparameters, Machine
from electra.finetuning_arguments import FineTuningArguments
from electra.machine import computes_bf16
from electra.tokenization import tokenizer_fingerprint

BY_HIDDEN_SIZE = ((512, 3e-4, 0.8), (1024, 1e-4, 0.8), (float("inf"), 5e-5, 0.9))
"""Hidden size below which a learning rate and a layer decay hold: small, base and large in table 7 of the paper."""


def hyperparameters(
    args: Arguments[Any], task: str, encoder: Encoder, *, default_max_length: int = 128
) -> Hyperparameters:
    """The settings of a task for this encoder.

    Args:
        default_max_length: where --max_length is not given.

    Raises:
        UserError: inputs would be longer than the encoder's positions.
    """
    options = {f.name: getattr(args.tuning, f.name) for f in fields(args.tuning)}
    values = {**options, **args.overrides.get(task, {})}
    hidden_size = encoder.model.config.hidden_size
    _, learning_rate, decay = next(row for row in BY_HIDDEN_SIZE if hidden_size < row[0])
    if values["learning_rate"] is None:
        values["learning_rate"] = learning_rate
    if values["layerwise_lr_decay"] is None:
        values["layerwise_lr_decay"] = decay
    if values["max_length"] is None:
        values["max_length"] = min(default_max_length, encoder.max_length)
    if values["max_length"] > encoder.max_length:
        raise UserError(
            f"--max_length {values['max_length']} is more than the {encoder.max_length} positions of {encoder.name}; "
            f"leave it out or lower it"
        )
    return Hyperparameters(**{f.name: values[f.name] for f in fields(Hyperparameters)})


def machine(tuning: FineTuningArguments) -> Machine:
    """How runs are computed here; bfloat16 where the device has it, unless the options say otherwise.

    Raises:
        UserError: float16 without a GPU.
    """
    bf16 = tuning.bf16
    if tuning.fp16 and (tuning.use_cpu or not torch.accelerator.is_available()):
        raise UserError("--fp16 needs a GPU; leave it out, or say --bf16")
    if bf16 is None:
        bf16 = not tuning.fp16 and computes_bf16(use_cpu=tuning.use_cpu)
    values = {**vars(tuning), "bf16": bf16, "report_to": tuple(tuning.report_to)}
    return Machine(**{f.name: values[f.name] for f in fields(Machine)})


def settings_of(
    settings: Hyperparameters, more: dict[str, Any], computed: Machine, encoder: str, start: str
) -> dict[str, Any]:
    """All that a score depends on beside task and seed, as it is written with a result.

    Args:
        more: what this kind of task depends on beside its hyper-parameters.
        encoder: fingerprint of what is fine-tuned.
        start: in words.
    """
    precision = "bf16" if computed.bf16 else "fp16" if computed.fp16 else "fp32"
    processes = PartialState().num_processes
    return {
        **asdict(settings),
        **more,
        "precision": precision,
        "processes": processes,
        "encoder": encoder,
        "start": start,
    }


def encoder_fingerprint(encoder: Encoder, *, is_fresh: bool) -> str:
    """12 hexadecimal digits of tokenizer and weights; of its configuration if each seed draws the weights."""
    model = encoder.model
    digest = hashlib.sha256(tokenizer_fingerprint(encoder.tokenizer).encode())
    if is_fresh:
        config = {name: value for name, value in model.config.to_diff_dict().items() if name[0] != "_"}
        config.pop("transformers_version", None)
        digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    else:
        for name, value in sorted(model.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:12]


def check_same_protocol(found: Result, settings: dict[str, Any], rows: dict[str, int], folder: str) -> None:
    """Refuse to put results beside those of other settings or other data.

    Args:
        rows: of the data, or of those that have been read.
    Raises:
        UserError: names what differs.
    """
    now = {**settings, **{f"rows of {split}": n for split, n in rows.items()}}
    then = {**found.settings, **({f"rows of {split}": n for split, n in found.rows.items()} if rows else {})}
    differences = [
        f"{name} is {then.get(name)} there and {now.get(name)} here"
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    ]
    if differences:
        raise UserError(
            f"{folder} holds {found.task} with other settings: {'; '.join(differences[:4])}; choose another "
            f"--experiment_name"
        )
