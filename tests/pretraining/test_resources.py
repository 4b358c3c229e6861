"""What a run needs: its disk use, against a real run's files; what a forward pass keeps, and batches that fit."""

import io
import resource
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import PreTrainedTokenizerBase, TrainerState

from electra.io.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.data import load_data
from electra.pretraining.options import parse_arguments
from electra.pretraining.plan import Plan
from electra.pretraining.resources import _Clock, activation_bytes, advice, check_disk, count_checkpoints
from electra.runtime.cpu import tune_networks
from run_pretraining import main
from tests.model.helpers import joint_model
from tests.pretraining.runs import flags


@pytest.mark.parametrize(
    ("options", "fractions", "kept", "are_others_deleted"),
    [
        ({"save_total_limit": 10}, [], 3, False),  # of steps 5, 10, 12
        ({"save_total_limit": 1}, [], 1, True),
        ({"save_total_limit": 1}, [3, 10], 3, True),
        ({"save_strategy": "no"}, [3], 1, False),
        ({"save_steps": 0}, [], 1, False),
    ],
)
def test_checkpoints_that_are_kept(
    plan: Plan, options: dict[str, object], fractions: list[int], kept: int, are_others_deleted: bool
) -> None:
    training = parse_arguments(flags(Path(), **{"save_steps": 5, **options})).training
    assert count_checkpoints(training, replace(plan, checkpoint_steps=fractions)) == (kept, are_others_deleted)


def test_a_run_that_does_not_fit_on_its_disk_is_refused_and_a_plan_reports_it(
    tmp_path: Path, plan: Plan, make_pair: Callable[..., ElectraForJointPretraining], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, run = make_pair(), tmp_path / "output" / "run"
    checkpoint = 3 * 4 * plan.total_parameters
    networks = 4 * (plan.discriminator_parameters + plan.generator_parameters)

    def check(free: int, **values: object) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 0, free))
        training = parse_arguments(flags(tmp_path)).training.with_values(output_dir=str(run), **values)
        check_disk(parse_arguments(flags(tmp_path))._replace(training=training), model, plan)

    check(3 * checkpoint + networks)
    check(0, plan=True)
    for missing in ({"free": 3 * checkpoint + networks - 1}, {"free": 2 * checkpoint, "save_total_limit": 1}):
        with pytest.raises(UserError, match="--save_total_limit"):
            check(**missing)
    check(2 * checkpoint + networks, save_total_limit=1)  # two at once
    check(checkpoint + networks, save_only_model=True)
    matrices = sum(p.numel() for name, p in model.named_parameters() if ".layer." in name and p.ndim == 2)
    check(3 * (checkpoint - 4 * matrices) + networks, muon_learning_rate=1e-3)  # which keeps one average of them
    (run / "checkpoint-2").mkdir(parents=True)
    check(2 * checkpoint + networks)


def test_a_plan_measures_a_few_steps_and_leaves_no_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*flags(folder), "--plan"])
    output = capsys.readouterr().out
    lines = {line[:15].strip(): line for line in output.splitlines()}
    assert {"corpus", "discriminator", "training", "compute", "memory", "disk", "trial"} <= set(lines)
    assert "10 steps of" in lines["trial"] and "3 checkpoints of" in lines["disk"] and "peak memory" in output
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "cache"}


def test_a_plan_waits_for_the_device_after_its_first_and_its_last_step_only(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(step))
    for device in ("cuda", "cpu"):
        clock = _Clock()
        for step in range(1, 12):
            state = TrainerState(global_step=step, max_steps=11)
            clock.on_step_end(SimpleNamespace(device=torch.device(device)), state, None)
        assert waits == [1, 11] and len(clock.times) == 3


@pytest.mark.parametrize(("what", "limit"), [("token cache", 4096), ("tokenizer", 1000)])
def test_a_cache_that_cannot_be_written_is_the_users_error(
    folder: Path, glue_tokenizer: PreTrainedTokenizerBase, what: str, limit: int
) -> None:
    glue_tokenizer.save_pretrained(folder / "tok")
    args = parse_arguments(flags(folder, tokenizer_path=folder / "tok" if what == "token cache" else None))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))  # as if the disk ended there
    try:
        # Captured output is a file, too. tqdm keeps its lock if it cannot write a bar: later bars would wait forever.
        with redirect_stderr(io.StringIO()), pytest.raises(UserError, match=f"{what} to {folder}/cache"):
            load_data(args, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (folder / "cache").iterdir() if path.suffix != ".lock"] == []


def test_activations_are_what_autograd_keeps(make_pair: Callable[..., ElectraForJointPretraining]) -> None:
    model = make_pair().train()
    tune_networks(model)
    kept: dict[int, torch.Tensor] = {}
    ids = torch.full((6, 16), 7)

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(input_ids=ids, token_type_ids=torch.zeros_like(ids))
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    real = sum(t.untyped_storage().nbytes() for pointer, t in kept.items() if pointer not in weights)
    estimate = activation_bytes(model.config, 6, 16, "cpu")
    assert output.loss.requires_grad and estimate == pytest.approx(real, rel=0.1)
    twice = activation_bytes(model.config, 12, 16, "cpu")
    assert twice == pytest.approx(2 * estimate, rel=0.05)
    assert activation_bytes(joint_model("modernbert").config, 6, 16, "cpu") > 0  # whose first weights are read


@pytest.mark.parametrize(
    ("free", "size", "accumulation"),
    [(202, None, None), (100, 32, 3), (60, 24, 4), (13, 1, 96), (11, None, None)],
)
def test_the_largest_batch_that_fits_is_proposed(free: int, size: int | None, accumulation: int | None) -> None:
    training = SimpleNamespace(per_device_train_batch_size=32 * 3, gradient_accumulation_steps=1)
    said = advice(training, weights=10, activations=2 * 96, free=round(free / 0.9) + 1)
    if size is None:
        assert said is None if free > 100 else "--max_length" in str(said)
        return
    assert said is not None
    assert f"--per_device_train_batch_size {size} --gradient_accumulation_steps {accumulation} " in said
