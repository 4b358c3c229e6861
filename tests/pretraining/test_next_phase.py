"""A run that starts from a checkpoint of another one: weights and moments stay, text and schedule are its own."""

import shutil
from pathlib import Path

import pytest
import torch
import yaml
from pytest import approx
from safetensors.torch import load_file
from transformers import TrainerCallback

from electra import ElectraForJointPretraining, ElectraTrainer, ElectraTrainingArguments
from electra.pretraining.run import main
from electra.pretraining.run_folder import check_optimizer_of
from tests.conftest import refused
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import FAST, assert_same_state, flags, history, make, write_corpus

pytestmark = pytest.mark.slow

# A constant rate, and a beta that is no default, so that the next phase shows whose it has.
STABLE = {**FAST, "lr_scheduler_type": "constant", "max_steps": 5, "save_steps": 5, "adam_beta2": 0.99}
POSITIONS = "electra.embeddings.position_embeddings.weight"


@pytest.fixture(scope="module")
def stable(tmp_path_factory):
    """The checkpoint of step 5 of a run with a constant rate; not to be changed."""
    folder = tmp_path_factory.mktemp("stable")
    write_corpus(folder / "corpus.txt")
    main(flags(folder, **STABLE, experiment_name="stable"))
    return folder / "output" / "stable" / "checkpoint-5"


@pytest.fixture
def folder(tmp_path):
    """Where the next phase can be: other text lies there."""
    write_corpus(tmp_path / "corpus.txt", seed=1)
    return tmp_path


def phase(checkpoint, **options):
    """Options of a run that anneals the checkpoint in three steps."""
    steps = {"max_steps": 3, "save_steps": 1, "logging_steps": 1, "warmup_steps": 0}
    return {**FAST, **steps, "learning_rate": None, "init_checkpoint": checkpoint, **options}


class AtStart(TrainerCallback):
    """What the first step finds: weights, the state of the optimizer, and its groups."""

    def __init__(self, trainer):
        self.trainer = trainer
        trainer.add_callback(self)

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 0:
            optimizer = self.trainer.optimizer.state_dict()
            self.state = {
                place: {name: value.clone() for name, value in entry.items()}
                for place, entry in optimizer["state"].items()
            }
            self.groups = [{**group} for group in optimizer["param_groups"]]
            self.weights = {name: value.clone() for name, value in self.trainer.model.state_dict().items()}


def optimizer_of(checkpoint):
    """The state of the optimizer that a checkpoint holds."""
    return torch.load(checkpoint / "optimizer.pt", weights_only=True)


def test_weights_and_moments_are_those_of_the_checkpoint(stable, folder):
    """The schedule and the count of steps begin anew, Adam's own count goes on."""
    trainer = make(folder, **phase(stable, lr_scheduler_type="linear"))
    start = AtStart(trainer)
    trainer.train()
    before = optimizer_of(stable)
    assert start.state.keys() == before["state"].keys() and len(start.state) > 10
    for place, entry in before["state"].items():
        assert all(torch.equal(entry[name], start.state[place][name]) for name in ("step", "exp_avg", "exp_avg_sq"))
        assert entry["exp_avg_sq"].any()
    stored = load_file(stable / "model.safetensors")
    assert all(torch.equal(value, start.weights[name]) for name, value in stored.items())
    assert {group["betas"] for group in start.groups} == {(0.9, 0.99)}  # of the run before, which were not given

    run = folder / "output" / "run"
    rates = [logs["learning_rate"] for logs in history(run / "checkpoint-3") if "loss" in logs]
    assert rates == approx([1e-3 * (3 - step) / 3 for step in range(3)])  # the peak is that of the run before
    assert {int(entry["step"]) for entry in optimizer_of(run / "checkpoint-3")["state"].values()} == {5 + 3}
    assert read_json(run / "checkpoint-3" / "trainer_state.json")["global_step"] == 3
    origin = read_json(run / "checkpoint-3" / "origin.json")
    assert origin["options"]["init_checkpoint"] == str(stable)
    assert origin["training_text"] != read_json(stable / "origin.json")["training_text"]


def test_a_new_rate_decay_and_betas_replace_those_of_the_checkpoint(stable, folder):
    new = {"learning_rate": 5e-4, "weight_decay": 0.3, "adam_beta1": 0.8, "lr_scheduler_type": "constant"}
    trainer = make(folder, **phase(stable, **new))
    start = AtStart(trainer)
    trainer.train()
    values = [(group["lr"], group["betas"][0], group["weight_decay"]) for group in start.groups]
    assert values == [(5e-4, 0.8, 0.3), (5e-4, 0.8, 0.0)]


def test_options_are_those_of_the_checkpoint_though_its_run_went_on_with_others(stable, folder):
    first = Path(shutil.copytree(stable.parent, folder / "output" / "first"))
    later = yaml.safe_load((first / "config.yaml").read_text()) | {"learning_rate": 7e-3}
    (first / "config.yaml").write_text(yaml.safe_dump(later))
    start = AtStart(trainer := make(folder, **phase(first / stable.name, lr_scheduler_type="constant")))
    trainer.train()
    assert {group["lr"] for group in start.groups} == {1e-3}


def test_a_schedule_of_another_class_starts_anew(stable, folder):
    """One that is no function of the step: nothing of the checkpoint's schedule is read."""
    held_out = {"eval_strategy": "steps", "eval_steps": 3, "validation_fraction": 0.2}
    options = {"lr_scheduler_type": "reduce_lr_on_plateau", "learning_rate": 5e-4}
    trainer = make(folder, **{**phase(stable), **held_out, **options})
    start = AtStart(trainer)
    trainer.train()
    assert {group["lr"] for group in start.groups} == {5e-4}


def test_the_next_phase_resumes_bit_for_bit_without_the_first(stable, folder):
    first = Path(shutil.copytree(stable.parent, folder / "output" / "first"))
    # A run stands for its latest checkpoint.
    main(flags(folder, **phase(first, max_steps=6, save_steps=2, warmup_steps=1, experiment_name="whole")))
    run = folder / "output" / "whole"
    recorded = yaml.safe_load((run / "config.yaml").read_text())
    assert recorded["init_checkpoint"] == str(first / "checkpoint-5")
    assert recorded["learning_rate"] == 1e-3 and recorded["hidden_size"] == FAST["hidden_size"]
    shutil.rmtree(first)
    copy = folder / "output" / "copy"
    shutil.copytree(run / "checkpoint-2", copy / "checkpoint-2")
    shutil.copy(run / "config.yaml", copy)
    main([f"--resume_from_checkpoint={copy}"])
    assert_same_state(run / "checkpoint-6", copy / "checkpoint-6")
    assert read_json(run / "metrics.json")["plan"]["steps"] == 6


@parametrize("tie", ["gdes", "none"])
def test_longer_text_repeats_the_positions_that_were_trained(folder, tie):
    """A run of text of 16 tokens, and one of 32 behind it."""
    main(flags(folder, **STABLE, tie=tie, experiment_name="stable"))
    checkpoint = folder / "output" / "stable" / "checkpoint-5"
    trainer = make(folder, **phase(checkpoint, max_length=32, tie=tie))
    start = AtStart(trainer)
    trainer.train()
    stored = load_file(checkpoint / "model.safetensors")
    for role in ("generator", "discriminator"):
        before = stored[f"{role}.{POSITIONS}"]
        after = start.weights[f"{role}.{POSITIONS}"]
        assert torch.equal(after[:16], before[:16]) and torch.equal(after[16:], before[:16])
    last = folder / "output" / "run" / "checkpoint-3"
    assert read_json(last / "config.json")["discriminator"]["pretraining_positions"] == 32
    assert trainer.data.segments.max_length == 32


def test_the_base_of_rotary_positions_rises_with_the_length(folder):
    options = {"discriminator_type": "modernbert", "tie": "word", "generator_size": 1.0, "num_hidden_layers": 2}
    main(flags(folder, **{**STABLE, **options}, experiment_name="stable"))
    checkpoint = folder / "output" / "stable" / "checkpoint-5"
    before = read_json(checkpoint / "config.json")["discriminator"]["rope_parameters"]
    longer = {"max_length": 48, "rope_theta": 500_000.0, "max_position_embeddings": 48}
    main(flags(folder, **{**phase(checkpoint), **options, **longer}))
    run = folder / "output" / "run"
    for role in ("discriminator", "generator"):
        network = read_json(run / role / "config.json")
        assert network["rope_parameters"]["full_attention"]["rope_theta"] == 500_000.0
        assert network["rope_parameters"]["sliding_attention"] == before["sliding_attention"]
        assert (network["max_position_embeddings"], network["pretraining_positions"]) == (48, 48)
    assert before["full_attention"]["rope_theta"] != 500_000.0
    main([f"--resume_from_checkpoint={run}", "--max_steps=4"])
    trained = ElectraForJointPretraining.from_pretrained(run / "checkpoint-4")
    frequencies = trained.discriminator.model.rotary_emb.full_attention_inv_freq
    width = trained.config.discriminator.hidden_size // trained.config.discriminator.num_attention_heads
    assert float(frequencies[-1]) == approx(500_000.0 ** -((width - 2) / width))


@parametrize(
    ("options", "named"),
    [
        ({"init_checkpoint": "nothing"}, "--init_checkpoint nothing"),
        ({"init_checkpoint": "{run}/discriminator"}, "discriminator optimizer"),
        ({"init_checkpoint": "{copy}/checkpoint-5"}, "checkpoint-5 optimizer.pt"),
        ({"max_length": 48, "max_position_embeddings": 48}, "position_embeddings 32 48"),
        ({"optim": "adafactor"}, "--optim adamw_torch_fused adafactor"),
        ({"adam_bias_correction": "false"}, "--adam_bias_correction True False"),
        ({"objective": "mlm", "generator_size": None}, "generator missing"),
        ({"objective": "two_stage"}, "--init_checkpoint two_stage"),
    ],
    ids=str,
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_leaves_no_run(stable, folder, options, named):
    copy = Path(shutil.copytree(stable.parent, folder / "copy"))
    with (copy / "checkpoint-5" / "optimizer.pt").open("ab") as file:
        file.write(b"x")
    places = {"run": stable.parent, "copy": copy}
    options = {name: value.format(**places) if isinstance(value, str) else value for name, value in options.items()}
    message = refused(lambda: main(flags(folder, **{**phase(stable), **options})))
    assert all(word in message for word in named.split()), message
    assert not (folder / "output" / "run").exists()


def test_a_sharded_optimizer_is_for_sharded_runs(stable, tmp_path):
    """Its file, which accelerate writes, has another name."""
    copy = Path(shutil.copytree(stable, tmp_path / "checkpoint-5"))
    options = vars(ElectraTrainingArguments(str(tmp_path)))
    check_optimizer_of(copy, options)
    assert "--fsdp" in refused(lambda: check_optimizer_of(copy, {**options, "fsdp": "full_shard"}))
    (copy / "optimizer.pt").rename(copy / "optimizer.bin")
    check_optimizer_of(copy, {**options, "fsdp": "full_shard"})
    assert "--fsdp" in refused(lambda: check_optimizer_of(copy, options))


def test_a_next_phase_in_python_takes_the_weights_into_any_model_of_the_sizes(stable, folder):
    options = {**FAST, "vocab_size": None, "tokenizer_path": stable, "experiment_name": "other"}
    other = make(folder, **options)  # data, and a pair that has learned nothing
    args = ElectraTrainingArguments(
        str(folder / "python"),
        init_checkpoint=str(stable.parent),
        max_steps=2,
        per_device_train_batch_size=4,
        adam_beta2=0.99,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={"num_decay_steps": 1},
        disable_tqdm=True,
    )
    trainer = ElectraTrainer(model=other.model, args=args, train_dataset=other.data)
    start = AtStart(trainer)
    trainer.train()
    stored = load_file(stable / "model.safetensors")
    assert all(torch.equal(value, start.weights[name]) for name, value in stored.items())
    assert {int(entry["step"]) for entry in start.state.values()} == {5}
    again = ElectraTrainer(model=other.model, args=args, train_dataset=other.data)
    again.train()  # the run has ended: neither weights nor optimizer are those of the first phase
    assert again.state.global_step == 2
    assert {int(entry["step"]) for entry in again.optimizer.state_dict()["state"].values()} == {7}

    model = ElectraForJointPretraining.from_pretrained(stable)
    args = args.with_values(output_dir=str(folder / "same"))
    ElectraTrainer(model=model, args=args, train_dataset=other.data).train()
    assert_same_state(folder / "python" / "checkpoint-2", folder / "same" / "checkpoint-2")
