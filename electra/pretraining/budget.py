"""From --budget to sizes: the recipe and the steps that fit into a time on this device, as words of a command line."""

import logging
import re
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list

from electra.flops import TransformerShape, six_n_t_flops
from electra.io.console import format_seconds
from electra.io.errors import UserError
from electra.pretraining.configuration import Configuration
from electra.pretraining.data import load_data
from electra.pretraining.model import build_model
from electra.pretraining.options import parse_arguments, resolve
from electra.pretraining.plan import MOST_EPOCHS, make_plan
from electra.pretraining.resources import run_trial
from electra.recipes import RECIPES
from electra.runtime.hardware import measure_matmul_flops

logger = logging.getLogger(__name__)

SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
UTILIZATION = 0.25
"""Share of the rate of a matrix product that training reaches, for the choice of a recipe."""
OVERHEAD = 0.1
"""Share of the time for evaluations, checkpoints and the export."""


def seconds_of(budget: str) -> float:
    """Seconds of a time such as 90m, 2h or 1.5d."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", budget.strip().lower())
    if match is None or match[2] not in SECONDS or float(match[1]) == 0:
        raise UserError(f"--budget {budget} is not a time; write 90m, 2h or 1.5d")
    return float(match[1]) * SECONDS[match[2]]


def fit_to_budget(argv: list[str], args: Configuration) -> list[str]:
    """The command line with the size and the steps that --budget allows, measured in a trial on this device.

    Text is repeated 40 times at most. A size that the command line or its file names stays, and that of
    trained networks.
    """
    seconds = seconds_of(str(args.training.budget))
    if "max_steps" in args.flags:
        raise UserError("--budget sets --max_steps; leave one of them out")
    if args.training.auto_resume or args.training.resume_from_checkpoint is not None:
        raise UserError("--budget is for a new run; resume it with --resume_from_checkpoint, without --budget")
    words = list(argv)
    sized = {"model_size", "hidden_size", "init_discriminator", "init_generator"}
    if not sized & (args.flags | args.lines):
        (recipe,) = broadcast_object_list([recipe_for(seconds, args.training.device)])
        words += ["--model_size", recipe]
        args = parse_arguments(words)

    data = load_data(args, None)
    args = resolve(args, Path(str(args.training.output_dir)), None, len(data.policy), has_held_out=False)
    model = build_model(args, data.tokenizer)
    plan = make_plan(args, model, data)
    clock = run_trial(args, model, data, plan)

    affordable = int(seconds * (1 - OVERHEAD) / clock.seconds_per_step)
    useful = MOST_EPOCHS * plan.segments_per_epoch // plan.batch_size
    (steps,) = broadcast_object_list([max(1, min(affordable, useful))])
    if useful < affordable:
        logger.warning("the text lasts for %d epochs, or %d steps, less than the time: add text", MOST_EPOCHS, useful)
    words += ["--max_steps", str(steps)]
    logger.info("budget         %s: %s", format_seconds(seconds), " ".join(words[len(argv) :]))
    return words


def recipe_for(seconds: float, device: torch.device) -> str:
    """The largest recipe whose steps fit into a time on this device by the rate of a matrix product; else tiny."""
    flops = seconds * UTILIZATION * measure_matmul_flops(device, torch.float32)
    fitting = [name for name in ("tiny", "mini", "small", "base", "large") if flops_of_recipe(name) <= flops]
    return fitting[-1] if fitting else "tiny"


def flops_of_recipe(name: str) -> float:
    """FLOPs of all steps of a recipe by 6 N T and attention."""
    recipe: dict[str, Any] = dict(RECIPES[name])
    width, depth = recipe["generator_size"], recipe["generator_layer_size"]

    def shape(width: float, depth: float) -> TransformerShape:
        return TransformerShape(
            hidden_size=round(width * recipe["hidden_size"]),
            intermediate_size=round(width * recipe["intermediate_size"]),
            num_layers=max(1, round(depth * recipe["num_hidden_layers"])),
            num_heads=recipe["num_attention_heads"],
            embedding_size=recipe["embedding_size"],
            vocab_size=recipe.get("vocab_size", 30_522),
        )

    return six_n_t_flops(
        shape(1, 1),
        shape(width, depth),
        max_length=recipe["max_length"],
        train_batch_size=recipe["per_device_train_batch_size"],
        steps=recipe["max_steps"],
        mlm_positions_fraction=recipe["mlm_probability"],
    )
