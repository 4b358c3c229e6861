"""Which network is trained when, over real runs: stages, gate, ramp; resumed, distributed, and refused."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from electra.errors import UserError
from electra.pretraining.agreement import generator_steps_of
from electra.pretraining.options import parse_arguments
from electra.pretraining.phases import Gate, Phase, PhaseOptions, phase_at, stage_lengths
from run_pretraining import main
from tests.pretraining.runs import flags
from tests.pretraining.test_trainer import assert_same_state, history, make

TWO_STAGE = {
    "objective": "two_stage",
    "generator_size": 1,
    "generator_layer_size": 1,
    "intermediate_size": 128,
    "weight_decay": 0.1,
    "logging_steps": 1,
    "save_total_limit": 20,
}


def weights(checkpoint: Path, network: str = "") -> dict[str, torch.Tensor]:
    return {name: w for name, w in load_file(checkpoint / "model.safetensors").items() if name.startswith(network)}


def changed(before: Path, after: Path) -> set[str]:
    first, second = weights(before), weights(after)
    return {name for name in first if not torch.equal(first[name], second[name])}


def training_logs(checkpoint: Path) -> list[dict[str, float]]:
    return [logs for logs in history(checkpoint) if "loss" in logs]


# ---- the pure function


def test_stages_are_a_function_of_the_step() -> None:
    options = PhaseOptions(discriminator_weight=1.0, generator_steps=3)
    assert [phase_at(step, [], options) for step in range(5)] == [Phase(True, False, 1.0)] * 3 + [
        Phase(False, True, 1.0)
    ] * 2
    assert stage_lengths(5, 3) == [3, 2] and stage_lengths(5, 0) == [5]


def test_lambda_rises_in_equal_steps_to_its_value_and_stays() -> None:
    options = PhaseOptions(discriminator_weight=50.0, discriminator_warmup_steps=4)
    values = [phase_at(step, [], options).discriminator_weight for step in range(6)]
    assert values == [12.5, 25.0, 37.5, 50.0, 50.0, 50.0]
    assert phase_at(0, [], PhaseOptions(discriminator_weight=50.0)) == Phase(True, True, 50.0)


def test_the_gate_asks_the_last_evaluation_after_step_0() -> None:
    options = PhaseOptions(discriminator_weight=50.0, gate=Gate("discriminator_auc", 0.6))

    def is_open(*values: tuple[int, float]) -> bool:
        log_history: list[dict[str, Any]] = [{"loss": 3.0, "step": 1}]
        for step, value in values:
            log_history += [{"eval_discriminator_auc": value, "step": step}, {"loss": 2.0, "step": step + 1}]
        phase = phase_at(99, log_history, options)
        assert phase.train_discriminator and phase.discriminator_weight == 50.0
        return phase.train_generator

    assert is_open() and is_open((0, 0.5))  # nothing known but of the untrained pair
    assert is_open((0, 0.5), (5, 0.6)) and not is_open((0, 0.9), (5, 0.599))
    assert is_open((5, 0.2), (10, 0.7)) and not is_open((5, 0.7), (10, 0.2))
    assert not is_open((5, 0.9), (10, float("nan")))


# ---- two stages


def test_each_stage_trains_one_network_and_leaves_the_other_bit_for_bit(folder: Path) -> None:
    main(flags(folder, **TWO_STAGE, generator_steps=8, save_steps=1))
    run = folder / "output" / "run"
    generator, discriminator = (set(weights(run / "checkpoint-1", n)) for n in ("generator", "discriminator"))
    # The first update has a learning rate of 0, here as in every warm-up.
    assert changed(run / "checkpoint-1", run / "checkpoint-8") == generator
    assert changed(run / "checkpoint-8", run / "checkpoint-12") == discriminator
    optimizers = [torch.load(run / f"checkpoint-{n}" / "optimizer.pt", weights_only=True) for n in (8, 12)]
    assert len(optimizers[0]["state"]) == len(generator)
    # After the switch, and an update of rate 0: the encoder is the generator's, the head is its own.
    pair = weights(run / "checkpoint-9")
    for name in discriminator - {n for n in discriminator if "predictions" in n}:
        assert torch.equal(pair[name], pair[name.replace("discriminator", "generator")]), name
    name = "discriminator.electra.encoder.layer.0.output.dense.weight"
    way = [weights(run / f"checkpoint-{step}")[name] - pair[name] for step in (9, 10, 11, 12)]
    distances = [float(step.abs().mean()) for step in way]
    assert distances == sorted(set(distances))  # copied once: it moves on and on
    head = {name for name in discriminator if "predictions" in name}
    assert head and not changed(run / "checkpoint-1", run / "checkpoint-8") & head


def test_the_log_and_the_evaluations_of_two_stages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(flags(folder, **TWO_STAGE, eval_steps=3))
    run = folder / "output" / "run"
    logs = training_logs(run / "checkpoint-12")
    for step, entry in enumerate(logs, start=1):
        if step <= 6:
            assert entry["loss"] == pytest.approx(entry["generator_loss"], rel=1e-6)
            assert "discriminator_loss" not in entry and "replaced_rate" not in entry
        else:
            assert entry["loss"] == pytest.approx(entry["discriminator_loss"], rel=1e-6)
            assert entry["generator_loss"] > 1 and entry["replaced_rate"] > 0
    # Each stage: warm-up of 2 steps, then down to nothing.
    stage = [0, 0.5, 1, 0.75, 0.5, 0.25]
    assert [entry["learning_rate"] for entry in logs] == pytest.approx([1e-3 * factor for factor in [*stage, *stage]])
    evaluations = {entry["step"]: entry for entry in history(run / "checkpoint-12") if "eval_loss" in entry}
    fresh, alone, switched, last = (evaluations[step] for step in (0, 3, 6, 12))
    assert fresh["eval_generator_loss"] != alone["eval_generator_loss"]
    assert alone["eval_discriminator_loss"] == pytest.approx(fresh["eval_discriminator_loss"], abs=0.02)
    assert switched["eval_generator_loss"] == last["eval_generator_loss"]
    assert last["eval_discriminator_loss"] < switched["eval_discriminator_loss"]
    for entry in evaluations.values():
        parts = entry["eval_generator_loss"] + entry["eval_discriminator_loss"]
        assert entry["eval_loss"] == pytest.approx(parts, rel=1e-6)
    lines = capsys.readouterr().out
    assert "stages         6 steps of the generator, then 6 of the discriminator" in lines
    assert lines.count("step 6: the generator is frozen, the discriminator starts from the generator") == 1
    plan = json.loads((run / "metrics.json").read_text())["plan"]
    assert plan["generator_steps"] == 6
    assert "It was trained first, alone" in (run / "generator" / "README.md").read_text()
    assert "a generator that was trained before it" in (run / "discriminator" / "README.md").read_text()


def test_a_window_that_holds_the_switch_averages_each_loss_over_its_own_steps(folder: Path) -> None:
    main(flags(folder, **TWO_STAGE, experiment_name="each", generator_steps=5))
    main(flags(folder, **{**TWO_STAGE, "logging_steps": 12}, experiment_name="window", generator_steps=5))
    each, (window,) = (training_logs(folder / "output" / name / "checkpoint-12") for name in ("each", "window"))
    for name in ("generator_loss", "discriminator_loss", "replaced_rate"):
        values = [entry[name] for entry in each if name in entry]
        assert len(values) == (12 if name == "generator_loss" else 7)
        assert window[name] == pytest.approx(sum(values) / len(values), rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2, "bf16": "true"}], ids=str)
def test_two_stages_resumed_before_at_and_after_the_switch_end_bit_for_bit_alike(
    folder: Path, options: dict[str, object]
) -> None:
    steps = {**TWO_STAGE, **options, "generator_steps": 6, "save_steps": 3}
    main(flags(folder, experiment_name="whole", **steps))
    whole = folder / "output" / "whole"
    for step in (3, 6, 9):
        resumed = folder / "output" / f"from-{step}"
        resumed.mkdir()
        (whole / f"checkpoint-{step}").rename(resumed / f"checkpoint-{step}")
        main(
            flags(folder, resume_from_checkpoint=resumed / f"checkpoint-{step}", **{**steps, "generator_steps": None})
        )
        assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")
        assert (
            training_logs(resumed / "checkpoint-12")[-1]["loss"] == training_logs(whole / "checkpoint-12")[-1]["loss"]
        )


def test_a_resumed_run_keeps_the_switch_where_it_was(folder: Path) -> None:
    main(flags(folder, **TWO_STAGE))
    run = folder / "output" / "run"
    with pytest.raises(UserError, match="was trained with --generator_steps 6, not 7; leave --generator_steps out"):
        main(flags(folder, **TWO_STAGE, generator_steps=7, resume_from_checkpoint=run / "checkpoint-8"))
    main(flags(folder, **{**TWO_STAGE, "max_steps": 16}, resume_from_checkpoint=run))  # half would be 8
    assert json.loads((run / "checkpoint-16" / "config.json").read_text())["generator_steps"] == 6


def test_a_discriminator_need_not_start_from_the_generator(folder: Path) -> None:
    options = {**TWO_STAGE, "generator_size": 0.5, "save_steps": 1}
    main([*flags(folder, **options), "--no_init_from_generator"])
    run = folder / "output" / "run"
    # The first update of a stage has a learning rate of 0, and nothing was copied: it is as it was made.
    assert changed(run / "checkpoint-1", run / "checkpoint-7") == set(weights(run / "checkpoint-1", "generator"))
    assert "init_from_generator: false" in (run / "config.yaml").read_text()
    assert not parse_arguments(["--config", str(run / "config.yaml")]).objective.init_from_generator


def test_product_schedules_are_joined_too_and_others_are_refused(folder: Path) -> None:
    trainer = make(folder, **TWO_STAGE, product_schedule="true", warmup_steps=0.5)
    trainer.create_optimizer_and_scheduler(12)
    scheduler: Any = trainer.lr_scheduler
    stage = [min(1, step / 3) * (1 - step / 6) for step in range(6)]
    assert [scheduler.lr_lambdas[0](step) for step in range(13)] == pytest.approx([*stage, *stage, 0])
    with pytest.raises(UserError, match="reduce_lr_on_plateau cannot be started again for the second stage"):
        make(folder, **TWO_STAGE, lr_scheduler_type="reduce_lr_on_plateau", experiment_name="other")


@pytest.mark.parametrize("steps", [12, 13])
def test_both_stages_need_steps(folder: Path, steps: int) -> None:
    with pytest.raises(UserError, match=f"--generator_steps {steps} is not possible: .* below --max_steps 12"):
        main(flags(folder, **TWO_STAGE, generator_steps=steps))
    with pytest.raises(UserError, match="--max_steps 1 is not enough for two stages"):
        generator_steps_of(None, 1, None)
    assert generator_steps_of(None, 13, None) == 6


def test_two_processes_leave_frozen_networks_alone_and_agree(folder: Path) -> None:
    """torchrun with gloo: networks without gradient neither hang nor move, and both copies stay equal."""
    root = Path(__file__).parents[2]
    options = flags(folder, **TWO_STAGE, use_cpu="true", eval_strategy="no")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    result = subprocess.run(
        [*command, str(root / "run_pretraining.py"), *options],
        cwd=root, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    run = folder / "output" / "run"
    assert changed(run / "checkpoint-4", run / "checkpoint-8") == set(weights(run / "checkpoint-4"))
    assert changed(run / "checkpoint-8", run / "checkpoint-12") == set(weights(run / "checkpoint-8", "discriminator"))
    steps = {
        int(state["step"])
        for state in torch.load(run / "checkpoint-12" / "optimizer.pt", weights_only=True)["state"].values()
    }
    assert steps == {6}  # each network has had half of the updates
    assert (run / "checkpoint-12" / "rng_state_1.pth").is_file()


# ---- the gate and the ramp


def test_a_gate_that_closes_stops_the_generator_and_one_that_opens_starts_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Closed from the first evaluation on by a threshold no AUC reaches; open all along by one that all do."""
    for name, threshold in (("closed", 1.0), ("open", 0.0), ("none", None)):
        gate = {} if threshold is None else {"generator_gate": f"['discriminator_auc', {threshold}]"}
        main(flags(folder, experiment_name=name, logging_steps=1, save_steps=6, eval_steps=6, **gate))
    output = folder / "output"
    assert_same_state(output / "open" / "checkpoint-12", output / "none" / "checkpoint-12")
    assert_same_weights_at_6(output)
    first, last = output / "closed" / "checkpoint-6", output / "closed" / "checkpoint-12"
    own = {name for name in weights(first, "generator") if ".electra.embeddings." not in name}
    assert changed(first, last) == set(weights(first)) - own
    closed = training_logs(last)
    assert [entry["train_generator"] for entry in closed] == [1.0] * 6 + [0.0] * 6
    assert {entry["train_generator"] for entry in training_logs(output / "open" / "checkpoint-12")} == {1.0}
    assert not any("train_generator" in entry for entry in training_logs(output / "none" / "checkpoint-12"))
    for entry in closed:
        is_trained = entry["train_generator"]
        expected = is_trained * entry["generator_loss"] + 50 * entry["discriminator_loss"]
        assert entry["loss"] == pytest.approx(expected, rel=1e-5)
    assert (
        capsys.readouterr().out.count(
            "step 6: the generator is not trained until held-out discriminator_auc is at least 1"
        )
        == 1
    )


def assert_same_weights_at_6(output: Path) -> None:
    one, two = (weights(output / name / "checkpoint-6") for name in ("closed", "none"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_gate_follows_the_metric_and_a_resumed_run_agrees(folder: Path) -> None:
    """The threshold lies between the values of two evaluations of the run, so the gate closes and opens again."""
    options = {"logging_steps": 1, "eval_steps": 3, "save_steps": 3, "learning_rate": 5e-3}
    main(flags(folder, experiment_name="probe", **options, generator_gate="['masked_accuracy', 9]"))
    probe = [
        e["eval_generator_loss"] for e in history(folder / "output" / "probe" / "checkpoint-12") if "eval_loss" in e
    ]
    threshold = (probe[1] + probe[2]) / 2 if probe[1] != probe[2] else probe[1]
    main(flags(folder, experiment_name="whole", **options, generator_gate=f"['generator_loss', {threshold!r}]"))
    whole = folder / "output" / "whole"
    logs = history(whole / "checkpoint-12")
    state = True
    for entry in logs:
        if "eval_loss" in entry and entry["step"] > 0:
            state = entry["eval_generator_loss"] >= threshold
        elif "train_generator" in entry:
            assert entry["train_generator"] == state
    assert {entry["train_generator"] for entry in logs if "train_generator" in entry} == {0.0, 1.0}
    for step in (3, 6, 9):
        resumed = folder / "output" / f"from-{step}"
        resumed.mkdir()
        (whole / f"checkpoint-{step}").rename(resumed / f"checkpoint-{step}")
        (resumed / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
        main(flags(folder, **options, resume_from_checkpoint=resumed / f"checkpoint-{step}"))
        assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")


def test_the_ramp_is_in_the_loss_and_in_the_log_but_not_in_the_evaluation(folder: Path) -> None:
    main(flags(folder, logging_steps=1, discriminator_warmup_steps=8, gradient_accumulation_steps=2))
    checkpoint = folder / "output" / "run" / "checkpoint-12"
    logs = training_logs(checkpoint)
    assert [entry["discriminator_weight"] for entry in logs] == [50 * min(1, step / 8) for step in range(1, 13)]
    for entry in logs:
        expected = entry["generator_loss"] + entry["discriminator_weight"] * entry["discriminator_loss"]
        assert entry["loss"] == pytest.approx(expected, rel=1e-4)
    for entry in history(checkpoint):
        if "eval_loss" in entry:
            expected = entry["eval_generator_loss"] + 50 * entry["eval_discriminator_loss"]
            assert entry["eval_loss"] == pytest.approx(expected, rel=1e-5)


def test_a_resumed_ramp_goes_on(folder: Path) -> None:
    main(flags(folder, experiment_name="whole", discriminator_warmup_steps=8))
    whole, resumed = folder / "output" / "whole", folder / "output" / "resumed"
    resumed.mkdir()
    (whole / "checkpoint-4").rename(resumed / "checkpoint-4")
    main(flags(folder, resume_from_checkpoint=resumed / "checkpoint-4", discriminator_warmup_steps=8))
    assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")


def test_a_gated_or_ramped_run_is_still_watched_and_others_are_not(folder: Path) -> None:
    def is_watched(**options: object) -> bool:
        callbacks = make(folder, **options).callback_handler.callbacks
        return any(type(callback).__name__ == "DiscriminatorHealth" for callback in callbacks)

    gate = {"generator_gate": "['discriminator_auc', 0.5]", "discriminator_warmup_steps": 3}
    assert is_watched() and is_watched(**gate)
    assert not is_watched(**TWO_STAGE) and not is_watched(generator_type="uniform")


def test_processes_search_for_weights_without_gradient_only_where_there_are_some(folder: Path) -> None:
    def searches(**options: object) -> bool | None:
        return make(folder, **options).args.ddp_find_unused_parameters

    assert searches(**TWO_STAGE) and searches(generator_gate="['loss', 1]")
    assert not searches() and not searches(objective="adversarial") and not searches(discriminator_warmup_steps=3)


# ---- adversarial and uniform runs


def test_an_adversarial_run_logs_its_parts_and_the_generators_entropy(folder: Path) -> None:
    main(flags(folder, objective="adversarial"))
    run = folder / "output" / "run"
    for entry in training_logs(run / "checkpoint-12"):
        parts = entry["adversarial_loss"] + entry["baseline_loss"] + 50 * entry["discriminator_loss"]
        assert entry["loss"] == pytest.approx(parts, rel=1e-4)
        assert 4 < entry["generator_loss"] < 6 and 4 < entry["generator_entropy"] < 4.7876  # log 120
    held_out = json.loads((run / "metrics.json").read_text())["held_out"]
    assert 4 < held_out["trained"]["generator_entropy"] < 4.7876
    assert "generator_entropy" not in held_out["frequencies"]
    assert "by REINFORCE" in (run / "generator" / "README.md").read_text()
    names = {
        *load_file(run / "generator" / "model.safetensors"),
        *load_file(run / "discriminator" / "model.safetensors"),
    }
    assert not any("baseline" in name for name in names)


@pytest.mark.parametrize("objective", ["electra", "electra_15", "replace_mlm", "all_tokens_mlm"])
def test_a_run_without_a_generator_network_ends_with_one_network(folder: Path, objective: str) -> None:
    main(flags(folder, objective=objective, generator_type="uniform"))
    run = folder / "output" / "run"
    assert not (run / "generator").exists()
    assert (
        f"| objective | {objective}, replacements drawn uniformly |"
        in (run / "discriminator" / "README.md").read_text()
    )
    results = json.loads((run / "metrics.json").read_text())
    plan, trained = results["plan"], results["held_out"]["trained"]
    assert plan["uniform_generator"] and plan["generator_parameters"] == 0 and plan["generator_shape"] == ""
    assert trained["replaced_rate"] > 0.1 and not {
        name for name in trained if name.startswith(("generator", "masked", "sampled"))
    }
    assert "mlm_accuracy_mask_token" not in trained
    for entry in training_logs(run / "checkpoint-12"):
        loss = next(entry[name] for name in ("discriminator_loss", "all_tokens_loss", "mlm_loss") if name in entry)
        assert entry["loss"] == pytest.approx(loss, rel=1e-4) and entry["replaced_rate"] > 0.05
        assert "generator_loss" not in entry
    evaluation = next(entry for entry in history(run / "checkpoint-12") if "eval_loss" in entry)
    names = ("eval_discriminator_loss", "eval_all_tokens_loss", "eval_mlm_loss")
    assert evaluation["eval_loss"] == next(evaluation[name] for name in names if name in evaluation)
    with pytest.raises(UserError, match="was trained with --generator_type uniform"):
        main(flags(folder, objective=objective, resume_from_checkpoint=run, generator_type="electra"))


@pytest.mark.parametrize("options", [{"objective": "adversarial"}, {"generator_type": "uniform"}], ids=str)
def test_such_a_run_resumes_bit_for_bit(folder: Path, options: dict[str, object]) -> None:
    main(flags(folder, experiment_name="whole", **options))
    whole, resumed = folder / "output" / "whole", folder / "output" / "resumed"
    resumed.mkdir()
    (whole / "checkpoint-4").rename(resumed / "checkpoint-4")
    (resumed / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    main(flags(folder, resume_from_checkpoint=resumed / "checkpoint-4", generator_size=None))
    assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")


# ---- what is refused


def test_a_gate_is_read_from_yaml_and_from_flags(folder: Path) -> None:
    (folder / "gate.yaml").write_text("generator_gate: [discriminator_auc, 0.6]\n")
    from_file = parse_arguments([*flags(folder), "--config", str(folder / "gate.yaml")])
    from_flags = parse_arguments([*flags(folder), "--generator_gate", "discriminator_auc", "0.6"])
    assert from_file.objective == from_flags.objective
    assert from_file.objective.generator_gate == ["discriminator_auc", "0.6"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generator_gate": "['auc', 0.6]"}, "no metric auc; it has loss, generator_loss, .*, discriminator_auc"),
        ({"generator_gate": "['discriminator_auc', 'high']"}, "high is no number; expected METRIC THRESHOLD"),
        ({"generator_gate": "['discriminator_auc', 'nan']"}, "nan is no number"),
        ({"generator_gate": "['discriminator_auc']"}, "expected METRIC THRESHOLD, such as discriminator_auc 0.6"),
        ({"generator_gate": "['discriminator_auc', 0.6, 0.7]"}, "expected METRIC THRESHOLD"),
        (
            {"objective": "replace_mlm", "generator_gate": "['discriminator_auc', 0.6]"},
            "--objective replace_mlm has no metric discriminator_auc; it has loss, .*mlm_loss",
        ),
        ({"generator_gate": "['loss', 1]", "eval_strategy": "no"}, "--eval_strategy is no or no text is held out"),
        ({"generator_gate": "['loss', 1]", "validation_fraction": 0}, "no text is held out"),
        ({"objective": "mlm", "generator_gate": "['loss', 1]"}, "--generator_gate has no meaning for --objective mlm"),
        ({**TWO_STAGE, "generator_gate": "['loss', 1]"}, "has no meaning for --objective two_stage: it trains one"),
        ({"discriminator_warmup_steps": -1}, "--discriminator_warmup_steps -1 is not possible"),
        ({"objective": "mlm", "discriminator_warmup_steps": 5}, "no meaning for --objective mlm: it has no generator"),
        ({**TWO_STAGE, "discriminator_warmup_steps": 5}, "--discriminator_warmup_steps has no meaning"),
        ({**TWO_STAGE, "discriminator_weight": 5}, "--discriminator_weight has no meaning for --objective two_stage"),
        ({"generator_steps": 5}, "--generator_steps has no meaning for --objective electra: it has no stages"),
        ({"init_from_generator": "false"}, "--init_from_generator has no meaning for --objective electra"),
        ({**TWO_STAGE, "generator_steps": 0}, "--generator_steps 0 is not possible: it must be above 0"),
        ({**TWO_STAGE, "generator_size": 0.5}, "--generator_size is 0.5; say --generator_size 1, or --no_init"),
        ({**TWO_STAGE, "generator_layer_size": 0.5}, "--generator_layer_size is 0.5; say --generator_layer_size 1"),
        ({**TWO_STAGE, "intermediate_size": 64}, "--intermediate_size is 64; say --intermediate_size 128"),
        ({"objective": "adversarial", "temperature": 2}, "--temperature has no meaning for --objective adversarial"),
        ({"objective": "adversarial", "disallow_correct": True}, "--disallow_correct has no meaning for"),
        ({"objective": "mlm", "generator_type": "uniform"}, "no meaning for --objective mlm; it is for electra, el"),
        ({**TWO_STAGE, "generator_type": "uniform"}, "uniform has no meaning for --objective two_stage"),
        ({"objective": "adversarial", "generator_type": "uniform"}, "uniform has no meaning for --objective adversa"),
        (
            {"generator_type": "uniform", "discriminator_weight": 5},
            "--discriminator_weight has no meaning for --generator_type uniform: there is no generator network",
        ),
        ({"generator_type": "uniform", "temperature": 2}, "--temperature has no meaning for --generator_type uniform"),
        ({"generator_type": "uniform", "generator_gate": "['loss', 1]"}, "--generator_gate has no meaning"),
        ({"generator_type": "gpt"}, "gpt"),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(folder: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        parse_arguments(flags(folder, **options))
    assert "\n" not in str(refused.value)
