"""Where a run lives: output_dir/experiment_name, never one that is taken; and what a resumed run must agree with.

checkpoint-N/            full state of step N
generator/               the exported networks with tokenizer and model card: any AutoModel opens them
discriminator/
tokenizer/
config.yaml              every effective option, ready for --config
metrics.json             held-out metrics, baselines, plan, versions
"""

import json
import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import PreTrainedTokenizerBase
from transformers.trainer_utils import get_last_checkpoint

from electra.command_line import effective_values, write_yaml
from electra.errors import UserError
from electra.model.modeling import ElectraForJointPretraining
from electra.pretraining.options import CONFIG_NAME, Arguments
from electra.recipes import RECIPES
from electra.tokenization import load_tokenizer, tokenizer_fingerprint

logger = logging.getLogger(__name__)

METRICS_NAME = "metrics.json"
NEWEST = ("true", "yes", "1", "last")
"""Values of --resume_from_checkpoint that mean the newest checkpoint of the run."""


@dataclass
class Run:
    """Where a run writes, and the checkpoint it continues from, if any."""

    folder: Path
    checkpoint: str | None


def open_run(args: Arguments) -> Run:
    """Find the checkpoint to resume, or make a new folder; the same on every process."""
    training = args.training
    resume = training.resume_from_checkpoint
    state = PartialState()
    shared: list[Any] = [None]
    if state.is_main_process:
        try:
            if resume and resume.lower() not in ("false", "no", "0"):
                checkpoint = find_checkpoint(resume, training.output_dir, training.experiment_name)
                shared = [Run(checkpoint.parent, str(checkpoint))]
            else:
                shared = [Run(new_run_folder(training.output_dir, training.experiment_name), None)]
        except UserError as error:
            shared = [error]
    if state.num_processes > 1:
        broadcast_object_list(shared)
    run = shared[0]
    if isinstance(run, UserError):
        raise run
    if run.checkpoint is None and run.folder.name != training.experiment_name:
        logger.info(
            "%s is taken; this run goes to %s", Path(training.output_dir) / training.experiment_name, run.folder
        )
    if run.checkpoint is not None:
        logger.info("continuing %s", run.checkpoint)
    training.output_dir = str(run.folder)
    training.run_name = training.run_name or run.folder.name
    return run


def save_options(args: Arguments, run: Run, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write the effective options and the tokenizer into the run's folder; to be called once all is checked."""
    if not PartialState().is_main_process:
        return
    always = [*RECIPES["small"], "experiment_name", "seed", "data_seed"]
    values = effective_values(args, always)
    values["output_dir"] = str(run.folder.parent)
    values.pop("resume_from_checkpoint", None)
    values.pop("run_name", None)
    write_yaml(values, run.folder / CONFIG_NAME, "Effective options of this run; --config reads them back.")
    if run.checkpoint is None:
        tokenizer.save_pretrained(run.folder / "tokenizer")


def new_run_folder(output_dir: str, experiment_name: str) -> Path:
    """Make output_dir/experiment_name, or -2, -3 ... if that is taken.

    Raises:
        UserError: the folder cannot be written.
    """
    if not experiment_name or Path(experiment_name).name != experiment_name:
        raise UserError(f"--experiment_name '{experiment_name}' must be a plain folder name, without slashes")
    try:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        for name in _names(experiment_name):
            folder = Path(output_dir) / name
            if folder.is_dir() and not any(folder.iterdir()):
                break
            try:
                folder.mkdir()
                break
            except FileExistsError:
                continue
        probe = folder / f".{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"cannot write to --output_dir {output_dir}: {error.strerror or error}; name another folder"
        ) from error
    return folder


def _names(experiment_name: str) -> Iterator[str]:
    yield experiment_name
    number = 2
    while True:
        yield f"{experiment_name}-{number}"
        number += 1


def find_checkpoint(resume_from_checkpoint: str, output_dir: str, experiment_name: str) -> Path:
    """The checkpoint to resume: a checkpoint folder, or the newest one of a run folder.

    Args:
        resume_from_checkpoint: a checkpoint, a run folder, or a value of `NEWEST`.
        output_dir, experiment_name: where the newest one is looked for.
    Raises:
        UserError: there is none.
    """
    newest = resume_from_checkpoint.lower() in NEWEST
    folder = Path(output_dir) / experiment_name if newest else Path(resume_from_checkpoint)
    if not folder.is_dir():
        raise UserError(f"nothing to resume: there is no folder {folder}; name a run or a checkpoint that exists")
    if (folder / "trainer_state.json").is_file():
        return folder
    checkpoint = get_last_checkpoint(str(folder))
    if checkpoint is None:
        raise UserError(f"nothing to resume: {folder} holds no checkpoint-N; leave --resume_from_checkpoint out")
    if not (Path(checkpoint) / "trainer_state.json").is_file():
        raise UserError(
            f"{checkpoint} has no trainer_state.json: it was not written to its end; remove it or name an older one"
        )
    return Path(checkpoint)


def check_same_tokenizer(tokenizer: PreTrainedTokenizerBase, checkpoint: Path) -> None:
    """Refuse to resume with another tokenizer than the checkpoint's."""
    saved = load_tokenizer(str(checkpoint))
    if tokenizer_fingerprint(saved) != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"the tokenizer ({len(tokenizer)} tokens) is not the one of {checkpoint} ({len(saved)} tokens); "
            f"leave --tokenizer_path out to use the checkpoint's"
        )


def check_same_architecture(model: ElectraForJointPretraining, checkpoint: Path) -> None:
    """Refuse to resume with networks of other sizes than the checkpoint's, naming the differences."""
    try:
        saved = json.loads((checkpoint / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{checkpoint} holds no readable config.json; name another checkpoint") from error
    differences = [
        f"{network}.{name} is {old} there and {new} here"
        for network in ("discriminator", "generator")
        for name, old, new in _differences(saved.get(network, {}), getattr(model.config, network).to_dict())
    ]
    if differences:
        raise UserError(f"the model is not the one of {checkpoint}: {'; '.join(differences[:4])}")


def _differences(saved: dict[str, Any], current: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Of the sizes: whole numbers that are no token ids."""
    for name, old in saved.items():
        is_size = isinstance(old, int) and not isinstance(old, bool) and not name.endswith("_token_id")
        if is_size and name in current and current[name] != old:
            yield name, old, current[name]


def write_json(values: dict[str, Any], path: Path) -> None:
    """Write beside, then rename: a reader sees the old file or the new one, never half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(values, indent=2) + "\n")
    os.replace(beside, path)
