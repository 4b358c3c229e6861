"""Whole runs of every objective, of two stages, gate and lambda's warm-up: what they train, log, export, resume."""

import math
import shutil

import pytest
import torch
from pytest import approx, raises
from safetensors.torch import load_file

from electra.core.errors import UserError
from electra.core.objectives import OBJECTIVES, objective_of
from electra.finetuning.heads import load_encoder
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.metrics import metric_rows
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run import main
from tests.helpers import exit_codes, fork_ranks, parametrize, read_json
from tests.pretraining.runs import TWO_STAGE, assert_same_state, flags, history, write_corpus

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of all runs of this module, each of a name of its own, with a corpus."""
    folder = tmp_path_factory.mktemp("objectives")
    write_corpus(folder / "corpus.txt")
    return folder


@pytest.fixture(scope="module")
def stages(folder):
    """The folder of a run of two stages of six steps each, saved after every step."""
    main(flags(folder, **TWO_STAGE, experiment_name="stages", save_steps=1, eval_steps=3))
    return folder / "output" / "stages"


def weights(checkpoint, network=""):
    """Return the weights of a checkpoint by name, or those of one of its networks."""
    loaded = load_file(checkpoint / "model.safetensors")
    return {name: weight for name, weight in loaded.items() if name.startswith(network)}


def changed(before, after):
    """Return the names of the weights that differ between two checkpoints."""
    first = weights(before)
    second = weights(after)
    return {name for name in first if not torch.equal(first[name], second[name])}


def training_logs(checkpoint):
    """Return the lines of training of a checkpoint's log."""
    return [logs for logs in history(checkpoint) if "loss" in logs]


def resume(folder, run, step, **options):
    """Resume a copy of a run's checkpoint; return the last checkpoint of the copy."""
    copy = folder / "output" / f"{run.name}-from-{step}"
    shutil.copytree(run / f"checkpoint-{step}", copy / f"checkpoint-{step}")
    shutil.copy(run / "config.yaml", copy)
    main(flags(folder, **options, experiment_name=None, resume_from_checkpoint=copy / f"checkpoint-{step}"))
    return copy / "checkpoint-12"


# ---- two stages


def test_each_stage_trains_one_network_and_leaves_the_other(stages):
    generator, discriminator = (
        set(weights(stages / "checkpoint-1", network)) for network in ("generator", "discriminator")
    )
    # The first update has a learning rate of 0, here as in every warm-up.
    assert changed(stages / "checkpoint-1", stages / "checkpoint-6") == generator
    assert changed(stages / "checkpoint-6", stages / "checkpoint-12") == discriminator
    optimizer = torch.load(stages / "checkpoint-6" / "optimizer.pt", weights_only=True)
    assert len(optimizer["state"]) == len(generator)
    # After the switch, and an update of rate 0: the encoder is the generator's, the head is its own.
    pair = weights(stages / "checkpoint-7")
    head = {name for name in discriminator if "predictions" in name}
    for name in discriminator - head:
        assert torch.equal(pair[name], pair[name.replace("discriminator", "generator")]), name
    assert head and not changed(stages / "checkpoint-1", stages / "checkpoint-6") & head
    name = "discriminator.electra.encoder.layer.0.output.dense.weight"
    moves = [weights(stages / f"checkpoint-{step}")[name] - pair[name] for step in (7, 8, 9, 10, 11)]
    distances = [float(move.abs().mean()) for move in moves]
    assert distances == sorted(set(distances))  # copied once: it moves on and on


def test_the_log_evaluations_and_cards_of_two_stages(stages):
    logs = training_logs(stages / "checkpoint-12")
    for step, entry in enumerate(logs, start=1):
        if step <= 6:
            assert entry["loss"] == approx(entry["generator_loss"], rel=1e-6)
            assert "discriminator_loss" not in entry and "replaced_rate" not in entry
        else:
            assert entry["loss"] == approx(entry["discriminator_loss"], rel=1e-6)
            assert entry["generator_loss"] > 1 and entry["replaced_rate"] > 0
    stage = [0, 0.5, 1, 0.75, 0.5, 0.25]  # warm-up of 2 steps, then down to nothing
    assert [entry["learning_rate"] for entry in logs] == approx([1e-3 * factor for factor in [*stage, *stage]])
    evaluations = {entry["step"]: entry for entry in history(stages / "checkpoint-12") if "eval_loss" in entry}
    fresh, alone, switched, last = (evaluations[step] for step in (0, 3, 6, 12))
    assert fresh["eval_generator_loss"] != alone["eval_generator_loss"]
    assert alone["eval_discriminator_loss"] == approx(fresh["eval_discriminator_loss"], abs=0.02)
    assert switched["eval_generator_loss"] == last["eval_generator_loss"]
    assert last["eval_discriminator_loss"] < switched["eval_discriminator_loss"]
    for entry in evaluations.values():
        parts = entry["eval_generator_loss"] + entry["eval_discriminator_loss"]
        assert entry["eval_loss"] == approx(parts, rel=1e-6)
    assert read_json(stages / "metrics.json")["plan"]["generator_steps"] == 6
    cards = [(stages / network / "README.md").read_text() for network in ("generator", "discriminator")]
    assert "trained first, alone" in cards[0] and "trained before it" in cards[1]


def test_a_window_over_the_switch_averages_each_loss_s_own_steps(folder, stages):
    main(flags(folder, **{**TWO_STAGE, "logging_steps": 12}, experiment_name="window", eval_strategy="no"))
    (window,) = training_logs(folder / "output" / "window" / "checkpoint-12")
    each = training_logs(stages / "checkpoint-12")
    for name, count in (("generator_loss", 12), ("discriminator_loss", 6), ("replaced_rate", 6)):
        values = [entry[name] for entry in each if name in entry]
        assert len(values) == count
        assert window[name] == approx(sum(values) / len(values), rel=1e-5)


@parametrize("step", [3, 6, 9])
def test_two_stages_resumed_end_bit_for_bit_alike(folder, stages, step):
    last = resume(folder, stages, step, **TWO_STAGE, save_steps=6, eval_steps=3)
    assert_same_state(stages / "checkpoint-12", last)
    assert training_logs(last)[-1]["loss"] == training_logs(stages / "checkpoint-12")[-1]["loss"]


def test_a_resumed_run_keeps_the_switch_where_it_was(folder, stages):
    run = folder / "output" / "longer"
    shutil.copytree(stages / "checkpoint-12", run / "checkpoint-12")
    with raises(UserError, match="--generator_steps 6, not 7"):
        main(flags(folder, **TWO_STAGE, generator_steps=7, auto_resume=True, experiment_name="longer"))
    options = {**TWO_STAGE, "max_steps": 14, "save_steps": 2}  # half would be 7
    main(flags(folder, **options, auto_resume=True, experiment_name="longer"))
    assert read_json(run / "checkpoint-14" / "config.json")["generator_steps"] == 6


def test_a_discriminator_need_not_start_from_the_generator(folder, capsys):
    options = {**TWO_STAGE, "generator_size": 0.5, "generator_steps": 2, "save_steps": 1, "max_steps": 4}
    main([*flags(folder, **options, experiment_name="fresh"), "--no_init_from_generator"])
    assert capsys.readouterr().out.count("step 2: the generator is frozen") == 1
    run = folder / "output" / "fresh"
    # The first update of a stage has a learning rate of 0, and nothing was copied: it is as it was made.
    assert changed(run / "checkpoint-1", run / "checkpoint-3") == set(weights(run / "checkpoint-1", "generator"))
    assert "init_from_generator: false" in (run / "config.yaml").read_text()
    assert not parse_pretraining_arguments(["--config", str(run / "config.yaml")]).objective.init_from_generator


def test_two_processes_leave_frozen_networks_alone_and_agree(folder):
    """By gloo: networks without gradient neither hang nor move, and both copies stay equal."""
    options = flags(folder, **TWO_STAGE, use_cpu="true", eval_strategy="no", experiment_name="processes")
    ranks = fork_ranks(main, options, folder=folder)
    assert exit_codes(ranks) == [0, 0], ranks[0].log.read_text()
    run = folder / "output" / "processes"
    assert changed(run / "checkpoint-4", run / "checkpoint-8") == set(weights(run / "checkpoint-4"))
    assert changed(run / "checkpoint-8", run / "checkpoint-12") == set(weights(run / "checkpoint-8", "discriminator"))
    state = torch.load(run / "checkpoint-12" / "optimizer.pt", weights_only=True)["state"]
    assert {int(entry["step"]) for entry in state.values()} == {6}  # each network has had half of the updates
    assert (run / "checkpoint-12" / "rng_state_1.pth").is_file()


# ---- the gate and lambda's warm-up


def test_a_gate_stops_and_starts_the_generator(folder, capsys):
    """Closed from the first evaluation on by a threshold no AUC reaches; open all along by one that all do."""
    for name, threshold in (("closed", 1.0), ("open", 0.0), ("none", None)):
        gate = {} if threshold is None else {"generator_gate": f"['discriminator_auc', {threshold}]"}
        main(flags(folder, experiment_name=name, logging_steps=1, save_steps=6, eval_steps=6, **gate))
    output = folder / "output"
    assert_same_state(output / "open" / "checkpoint-12", output / "none" / "checkpoint-12")
    first = output / "closed" / "checkpoint-6"
    last = output / "closed" / "checkpoint-12"
    assert not changed(first, output / "none" / "checkpoint-6")
    of_generator = {
        name for name in weights(first, "generator") if ".electra.embeddings." not in name
    }  # those are shared
    assert changed(first, last) == set(weights(first)) - of_generator
    closed = training_logs(last)
    assert [entry["train_generator"] for entry in closed] == [1.0] * 6 + [0.0] * 6
    assert {entry["train_generator"] for entry in training_logs(output / "open" / "checkpoint-12")} == {1.0}
    assert not any("train_generator" in entry for entry in training_logs(output / "none" / "checkpoint-12"))
    for entry in closed:
        expected = entry["train_generator"] * entry["generator_loss"] + 50 * entry["discriminator_loss"]
        assert entry["loss"] == approx(expected, rel=1e-5)


# ---- every objective

# Objectives, and whether the generator is uniform. Two stages are run by the fixture.
RUNS = [
    *((objective, False) for objective in OBJECTIVES if objective != "electra"),
    ("electra", True),
    ("all_tokens_mlm", True),
]

MOST_ENTROPY = math.log(120) + 1e-4
"""Nats of a uniform generator of the 120 tokens, and rounding. After few steps it is still close to that."""


def check_logged_losses(checkpoint, spec):
    """Check that the logged loss, and the evaluated one, are sums of the losses that the objective has."""
    last = training_logs(checkpoint)[-1]
    parts = ["adversarial_loss", "baseline_loss"] if spec.is_adversarial else ["generator_loss"]
    of_generator = sum(last.get(name, 0.0) for name in parts if not spec.has_stages)
    assert last["loss"] == approx(of_generator + spec.discriminator_weight * last[spec.loss_name], rel=1e-4)
    *_, evaluation = (logs for logs in history(checkpoint) if "eval_loss" in logs)
    main_loss = spec.discriminator_weight * evaluation["eval_" + spec.loss_name]
    assert evaluation["eval_loss"] == approx(evaluation.get("eval_generator_loss", 0.0) + main_loss, rel=1e-6)
    assert ("generator_loss" in last) == spec.has_generator
    assert last.get("replaced_rate", 0.0) > 0.05 or not spec.sees_samples
    if spec.is_adversarial:
        assert 4 < last["generator_entropy"] < MOST_ENTROPY


@parametrize(("objective", "uniform"), RUNS)
def test_a_run_trains_all_weights_and_ends_with_networks_that_can_be_fine_tuned(folder, stages, objective, uniform):
    spec = objective_of(objective, uniform)
    run = stages
    options = {"objective": objective, "generator_type": "uniform" if uniform else None}
    if objective != "two_stage":
        run = folder / "output" / f"{objective}-{uniform}"
        main(flags(folder, **options, experiment_name=run.name))
    metrics = read_json(run / "metrics.json")
    plan = metrics["plan"]
    held_out = metrics["held_out"]
    assert (plan["objective"], plan["uniform_generator"]) == (objective, uniform)
    assert (run / "generator").is_dir() == (plan["generator_parameters"] > 0) == spec.has_generator
    assert list(held_out["trained"]) == [name for name, _ in metric_rows(spec)]
    asked = {"generator_loss_mask_token"} if spec.has_generator else set()
    if not spec.finds_replaced and not spec.sees_samples:
        asked |= {"mlm_loss" if spec.is_causal else "mlm_loss_mask_token"}
    assert asked <= set(held_out["frequencies"]) <= set(held_out["trained"]) - {"generator_entropy"}
    check_logged_losses(run / "checkpoint-12", spec)
    if spec.is_adversarial:
        assert 4 < held_out["trained"]["generator_entropy"] < MOST_ENTROPY
        exported = {
            **load_file(run / "generator" / "model.safetensors"),
            **load_file(run / "discriminator" / "model.safetensors"),
        }
        assert not any("baseline" in name for name in exported)

    names = set(weights(run / "checkpoint-4"))
    assert changed(run / "checkpoint-4", run / "checkpoint-12") == names  # no weight is left out
    trained = ElectraForJointPretraining.from_pretrained(run / "checkpoint-12").eval()
    for name in ("mlm_replacement_probability", "mlm_random_probability", "discriminator_weight"):
        assert getattr(trained.config, name) == getattr(spec, name)
    encoder = trained.discriminator.electra.state_dict()
    for source in (run, run / "checkpoint-12"):
        loaded = load_encoder(str(source)).model.state_dict()
        assert all(torch.equal(value, encoder[name]) for name, value in loaded.items())

    if (objective, uniform) in (("all_tokens_mlm", False), ("adversarial", False), ("electra", True)):
        resumed = resume(folder, run, 4, **options)
        assert_same_state(run / "checkpoint-12", resumed)
        again = read_json(resumed.parent / "metrics.json")["held_out"]
        assert again["trained"] == held_out["trained"]
    if uniform:
        with raises(UserError, match="--generator_type uniform, not electra"):
            changed_options = {**options, "experiment_name": run.name, "generator_type": "electra"}
            main(flags(folder, **changed_options, resume_from_checkpoint=run))
