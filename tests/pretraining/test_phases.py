"""Which network is trained when: the function of the step, and options that are refused."""

from pathlib import Path
from typing import Any

import pytest

from electra.errors import UserError
from electra.pretraining.callbacks.phases import Gate, Phase, PhaseOptions, phase_at, stage_lengths
from electra.pretraining.options import parse_arguments
from electra.pretraining.resume import generator_steps_of
from tests.pretraining.runs import TWO_STAGE, flags, make

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


# ---- options


def test_a_gate_is_read_from_yaml_and_from_flags(folder: Path) -> None:
    (folder / "gate.yaml").write_text("generator_gate: [discriminator_auc, 0.6]\n")
    from_file = parse_arguments([*flags(folder), "--config", str(folder / "gate.yaml")])
    from_flags = parse_arguments([*flags(folder), "--generator_gate", "discriminator_auc", "0.6"])
    assert from_file.objective == from_flags.objective
    assert from_file.objective.generator_gate == ["discriminator_auc", "0.6"]


@pytest.mark.parametrize("steps", [12, 13])
def test_both_stages_need_steps(steps: int) -> None:
    with pytest.raises(UserError, match=f"--generator_steps {steps} .* --max_steps 12"):
        generator_steps_of(steps, 12, None)
    with pytest.raises(UserError, match="--max_steps 1 "):
        generator_steps_of(None, 1, None)
    assert generator_steps_of(None, 13, None) == 6 and generator_steps_of(11, 12, None) == 11


def test_product_schedules_are_joined_too_and_others_are_refused(folder: Path) -> None:
    trainer = make(folder, **TWO_STAGE, product_schedule="true", warmup_steps=0.5)
    trainer.create_optimizer_and_scheduler(12)
    scheduler: Any = trainer.lr_scheduler
    stage = [min(1, step / 3) * (1 - step / 6) for step in range(6)]
    assert [scheduler.lr_lambdas[0](step) for step in range(13)] == pytest.approx([*stage, *stage, 0])
    with pytest.raises(UserError, match="--lr_scheduler_type reduce_lr_on_plateau"):
        make(folder, **TWO_STAGE, lr_scheduler_type="reduce_lr_on_plateau", experiment_name="other")


def test_who_is_watched_and_who_searches_for_weights_without_gradient(folder: Path) -> None:
    """Discriminators of other objectives have other base rates; processes search where networks are left out."""
    gate = {"generator_gate": "['discriminator_auc', 0.5]", "discriminator_warmup_steps": 3}
    for options, is_watched, searches in (
        ({}, True, False),
        (gate, True, True),
        ({"discriminator_warmup_steps": 3}, True, False),
        (TWO_STAGE, False, True),
        ({"generator_type": "uniform"}, False, False),
        ({"objective": "adversarial"}, False, False),
    ):
        trainer = make(folder, **options)
        names = {type(callback).__name__ for callback in trainer.callback_handler.callbacks}
        assert ("DiscriminatorHealth" in names) == is_watched, options
        assert bool(trainer.args.ddp_find_unused_parameters) == searches, options


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"generator_gate": "['auc', 0.6]"}, "auc discriminator_auc generator_loss"),
        ({"generator_gate": "['discriminator_auc', 'high']"}, "--generator_gate high"),
        ({"generator_gate": "['discriminator_auc', 'nan']"}, "--generator_gate nan"),
        ({"generator_gate": "['discriminator_auc']"}, "--generator_gate THRESHOLD"),
        ({"generator_gate": "['discriminator_auc', 0.6, 0.7]"}, "--generator_gate THRESHOLD"),
        ({"objective": "replace_mlm", "generator_gate": "['discriminator_auc', 0.6]"}, "replace_mlm mlm_loss"),
        ({"generator_gate": "['loss', 1]", "eval_strategy": "no"}, "--generator_gate --eval_strategy"),
        ({"generator_gate": "['loss', 1]", "validation_fraction": 0}, "--generator_gate"),
        ({"objective": "mlm", "generator_gate": "['loss', 1]"}, "--generator_gate mlm"),
        ({**TWO_STAGE, "generator_gate": "['loss', 1]"}, "--generator_gate two_stage"),
        ({"discriminator_warmup_steps": -1}, "--discriminator_warmup_steps -1"),
        ({"objective": "mlm", "discriminator_warmup_steps": 5}, "--discriminator_warmup_steps mlm"),
        ({**TWO_STAGE, "discriminator_warmup_steps": 5}, "--discriminator_warmup_steps two_stage"),
        ({**TWO_STAGE, "discriminator_weight": 5}, "--discriminator_weight two_stage"),
        ({"generator_steps": 5}, "--generator_steps electra"),
        ({"init_from_generator": "false"}, "--init_from_generator electra"),
        ({**TWO_STAGE, "generator_steps": 0}, "--generator_steps 0"),
        ({**TWO_STAGE, "generator_size": 0.5}, "--generator_size 0.5"),
        ({**TWO_STAGE, "generator_layer_size": 0.5}, "--generator_layer_size 0.5"),
        ({"objective": "adversarial", "temperature": 2}, "--temperature adversarial"),
        ({"objective": "adversarial", "disallow_correct": True}, "--disallow_correct adversarial"),
        ({"objective": "mlm", "generator_type": "uniform"}, "--generator_type mlm electra_15"),
        ({**TWO_STAGE, "generator_type": "uniform"}, "--generator_type two_stage"),
        ({"objective": "adversarial", "generator_type": "uniform"}, "--generator_type adversarial"),
        ({"generator_type": "uniform", "discriminator_weight": 5}, "--discriminator_weight uniform"),
        ({"generator_type": "uniform", "temperature": 2}, "--temperature uniform"),
        ({"generator_type": "uniform", "generator_gate": "['loss', 1]"}, "--generator_gate uniform"),
        ({"generator_type": "gpt"}, "gpt"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together_are_refused(folder: Path, options: dict[str, object], named: str) -> None:
    with pytest.raises(UserError) as error:
        parse_arguments(flags(folder, **options))
    assert all(word in str(error.value) for word in named.split()), error.value
