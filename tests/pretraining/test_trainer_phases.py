"""Which network is trained when: the function of the step, and the options, schedules and callbacks of stages."""

from pytest import approx, raises

from electra.core.errors import UserError
from electra.core.schedules import stage_lengths
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.step import Phase, phase_at
from tests.helpers import parametrize
from tests.pretraining.runs import TWO_STAGE, flags, make

# ---- the pure function


def test_stages_are_a_function_of_the_step():
    generator_alone = Phase(True, False)
    discriminator_alone = Phase(False, True)
    assert [phase_at(step, [], 3) for step in range(5)] == [generator_alone] * 3 + [discriminator_alone] * 2
    assert phase_at(0, []) == Phase(True, True)
    assert stage_lengths(5, 3) == [3, 2] and stage_lengths(5, 0) == [5]


def test_the_gate_asks_the_last_evaluation_after_step_0():
    def is_open(*values):
        log_history = [{"loss": 3.0, "step": 1}]
        for step, value in values:
            log_history += [{"eval_discriminator_auc": value, "step": step}, {"loss": 2.0, "step": step + 1}]
        phase = phase_at(99, log_history, generator_gate=["discriminator_auc", "0.6"])
        assert phase.train_discriminator
        return phase.train_generator

    assert is_open() and is_open((0, 0.5))  # nothing known but of the untrained pair
    assert is_open((0, 0.5), (5, 0.6)) and not is_open((0, 0.9), (5, 0.599))
    assert is_open((5, 0.2), (10, 0.7)) and not is_open((5, 0.7), (10, 0.2))
    assert not is_open((5, 0.9), (10, float("nan")))


# ---- options


def test_a_gate_is_read_from_yaml_and_from_flags(tmp_path):
    (tmp_path / "gate.yaml").write_text("generator_gate: [discriminator_auc, 0.6]\n")
    from_file = parse_pretraining_arguments([*flags(tmp_path), "--config", str(tmp_path / "gate.yaml")])
    from_flags = parse_pretraining_arguments([*flags(tmp_path), "--generator_gate", "discriminator_auc", ".6"])
    for args in (from_file, from_flags):
        metric, threshold = args.objective.generator_gate
        assert (metric, float(threshold)) == ("discriminator_auc", 0.6)


def test_each_stage_has_a_product_schedule_of_its_own(folder):
    trainer = make(folder, **TWO_STAGE, product_schedule="true", warmup_steps=0.5)
    trainer.create_optimizer_and_scheduler(12)
    scheduler = trainer.lr_scheduler
    stage = [min(1, step / 3) * (1 - step / 6) for step in range(6)]
    assert [scheduler.lr_lambdas[0](step) for step in range(13)] == approx([*stage, *stage, 0])


def test_stages_refuse_a_schedule_that_is_no_function_of_the_step(folder):
    with raises(UserError, match="--lr_scheduler_type reduce_lr_on_plateau"):
        make(folder, **TWO_STAGE, lr_scheduler_type="reduce_lr_on_plateau").train()


@parametrize(
    ("options", "is_watched", "searches"),
    [
        ({}, True, False),
        ({"generator_gate": "['discriminator_auc', 0.5]"}, True, True),
        (TWO_STAGE, False, True),
        ({"generator_type": "uniform"}, False, False),
    ],
    ids=["electra", "gate", "two_stage", "uniform"],
)
def test_only_electra_is_watched_and_unused_weights_are_searched_where_a_network_rests(
    folder, options, is_watched, searches
):
    """Discriminators of other objectives have other base rates; processes search where networks are left out."""
    trainer = make(folder, **options)
    names = {type(callback).__name__ for callback in trainer.callback_handler.callbacks}
    assert ("DiscriminatorHealth" in names) == is_watched
    assert bool(trainer.args.ddp_find_unused_parameters) == searches


@parametrize(
    ("options", "expected"),
    [
        ({}, {"mlm_replacement_probability": 0.85, "mlm_random_probability": 0.0, "discriminator_weight": 50.0}),
        ({"objective": "mlm"}, {"mlm_replacement_probability": 0.8, "mlm_random_probability": 0.1}),
        (
            {"objective": "mlm", "mlm_replacement_probability": 1.0, "mlm_random_probability": 0},
            {"mlm_replacement_probability": 1.0, "mlm_random_probability": 0.0},
        ),
        (
            {"objective": "all_tokens_mlm", "discriminator_weight": 7, "temperature": 2},
            {"mlm_replacement_probability": 0.85, "discriminator_weight": 7.0, "temperature": 2.0},
        ),
    ],
    ids=str,
)
def test_values_that_are_not_set_are_those_of_the_objective(tmp_path, options, expected):
    args = parse_pretraining_arguments(flags(tmp_path, **options))
    assert {name: getattr(args.spec, name) for name in expected} == expected
    # A run's own configuration under another objective: what was not set follows that one.
    assert ("mlm_replacement_probability" in args.record) == ("mlm_replacement_probability" in options)
