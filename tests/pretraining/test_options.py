"""The options of a run: which belong together, those of a resumed run, and what becomes of them with the data."""

import logging
from dataclasses import fields
from functools import partial

import numpy as np
import pytest
from pytest import raises

from electra.base.command_line import write_yaml
from electra.base.files import CONFIGS
from electra.base.options import NOT_EMPTY, SEED
from electra.core.errors import UserError
from electra.core.objectives import OBJECTIVES
from electra.core.options import options_with, rules_of
from electra.core.recipes import RECIPES
from electra.pretraining.configuration import GROUPS, ElectraTrainingArguments
from electra.pretraining.metrics import Field, evaluation_metrics
from electra.pretraining.options import parse_pretraining_arguments, resolve_options
from electra.pretraining.run import main
from electra.pretraining.run_folder import Run, RunProvenance, open_run
from tests.base.test_checkpoints import write_checkpoint
from tests.conftest import refused
from tests.helpers import parametrize
from tests.pretraining.runs import TWO_STAGE, flags

STABLE = "warmup_stable_decay"


@parametrize("group", GROUPS)
def test_a_path_is_not_empty_and_is_recorded_as_absolute(group):
    """An empty one is a forgotten value, and a run goes on from any folder."""
    for option in fields(group):
        is_path = rules_of(option).valid is NOT_EMPTY or option.name.endswith("_file")
        assert is_path == (rules_of(option).absolute is not None), option.name


def test_an_option_whose_default_may_change_is_always_recorded():
    """What recipes set, seeds, and the names of a run and of what it trains."""
    seeds = {option.name for group in GROUPS for option in fields(group) if rules_of(option).valid is SEED}
    expected = {*RECIPES["small"], *seeds, "experiment_name", "objective"}
    assert {*options_with("always_recorded", *GROUPS)} == expected


@parametrize(
    ("options", "named"),
    [
        ({"plan": True, "resume_from_checkpoint": "somewhere"}, "--plan"),
        ({"objective": "replace_mlm", "tie": "gdes"}, "--tie gdes replace_mlm"),
        ({"dataloader_num_workers": -1}, "--dataloader_num_workers -1"),
        ({"generator_gate": "['discriminator_auc', 'nan']"}, "--generator_gate nan"),
        ({"generator_gate": "['discriminator_auc']"}, "--generator_gate THRESHOLD"),
        ({"objective": "replace_mlm", "generator_gate": "['discriminator_auc', 0.6]"}, "replace_mlm mlm_loss"),
        ({**TWO_STAGE, "tie": "word"}, "--tie word two_stage"),
        ({"objective": "adversarial", "generator_type": "uniform"}, "--generator_type adversarial"),
        ({**TWO_STAGE, "generator_type": "uniform"}, "--generator_type two_stage"),
        ({"mlm_replacement_probability": 0.9, "mlm_random_probability": 0.2}, "0.9 0.2"),
        ({"mlm_random_probability": 0.2}, "0.85 0.2"),
        ({**TWO_STAGE, "init_checkpoint": "a"}, "--init_checkpoint two_stage --init_generator"),
        ({"fsdp": "full_shard", "eval_pairs": "a"}, "--fsdp --eval_pairs"),
        ({"torch_compile_mode": "max-autotune", "gradient_accumulation_steps": 2}, "--torch_compile_mode graphs"),
        ({"torch_compile_backend": "cudagraphs", "gradient_accumulation_steps": 2}, "--torch_compile_backend graphs"),
    ],
    ids=str,
)
@parametrize("is_line", [False, True])
def test_options_that_make_a_run_wrong_are_refused_wherever_they_come_from(tmp_path, options, named, is_line):
    if is_line:
        write_yaml(options, tmp_path / "wrong.yaml", "")
        options = {**dict.fromkeys(options), "config": tmp_path / "wrong.yaml"}
    message = refused(lambda: parse_pretraining_arguments(flags(tmp_path, **options)))
    assert all(word in message for word in named.split()), message


@parametrize(
    ("options", "unused", "named"),
    [
        ({"adam_bias_correction": False, "optim": "adafactor"}, "adam_bias_correction", "--optim"),
        ({"discriminator_type": "bert", "embedding_size": 8}, "embedding_size", "bert"),
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor", "pre-training"),
        ({"generator_gate": "['loss', 1]", "validation_fraction": 0}, "generator_gate", "held-out"),
        ({**TWO_STAGE, "discriminator_weight": 5}, "discriminator_weight", "two_stage"),
        ({"generator_steps": 5}, "generator_steps", "electra"),
        ({"objective": "adversarial", "temperature": 2}, "temperature", "adversarial"),
        ({"objective": "mlm", "tie": "word"}, "tie", "mlm"),
        ({"objective": "mlm", "generator_type": "uniform"}, "generator_type", "mlm"),
        ({"objective": "electric", "mlm_replacement_probability": 0.5}, "mlm_replacement_probability", "energies"),
        ({"objective": "causal", "mlm_probability": 0.3}, "mlm_probability", "causal"),
        ({"num_train_epochs": 1}, "num_train_epochs", "--max_steps 12"),
        ({"token_cache": "a"}, "train_file", "--token_cache"),
        ({"product_schedule": True, "lr_scheduler_type": "cosine"}, "product_schedule", "--lr_scheduler_type"),
        ({"decay_steps": 0.2}, "decay_steps", "warmup_stable_decay"),
        (
            {"decay_steps": 2, "lr_scheduler_type": STABLE, "lr_scheduler_kwargs": '{"num_decay_steps": 3}'},
            "decay_steps",
            "num_decay_steps",
        ),
        ({"initialization": "local", "init_generator": "a"}, "initialization", "--init_generator"),
        ({"init_generator_layers": 2}, "init_generator_layers", "--init_generator"),
        ({"generator_type": "uniform", "discriminator_weight": 5}, "discriminator_weight", "uniform"),
        ({"device_flops": 1e15}, "device_flops", "--plan"),
        ({"init_checkpoint": "a", "tokenizer_path": "b"}, "tokenizer_path", "--init_checkpoint"),
        # also with the value that it has anyway
        ({"objective": "mlm", "generator_size": 0.25}, "generator_size", "mlm"),
        ({"init_from_generator": True}, "init_from_generator", "electra"),
        ({"tokenizer_path": "tok", "lowercase": False}, "lowercase", "--tokenizer_path"),
        ({"tokenizer_path": "tok", "vocab_size": 30_522}, "vocab_size", "--tokenizer_path"),
        ({"init_discriminator": "a", "max_documents": 50}, "max_documents", "networks"),
        ({"token_cache": "a", "train_file": None, "strip_accents": True}, "strip_accents", "--token_cache"),
        ({"init_checkpoint": "a", "vocab_size": 100}, "vocab_size", "networks"),
    ],
    ids=str,
)
@parametrize("is_line", [False, True])
def test_options_without_effect_are_warned_of_and_have_none(tmp_path, caplog, options, unused, named, is_line):
    names = {"vocab_size": None, **dict.fromkeys(options)}
    without = {**names, **{name: value for name, value in options.items() if name != unused}}
    expected = parse_pretraining_arguments(flags(tmp_path, **without))
    caplog.clear()
    if is_line:
        corpus = {"train_file": str(tmp_path / "corpus.txt")}
        in_file = corpus if "token_cache" in options else {}  # beside which a flag would be refused
        write_yaml({**options, **in_file}, tmp_path / "options.yaml", "")
        words = {**names, **corpus, **dict.fromkeys(in_file), "config": tmp_path / "options.yaml"}
    else:
        words = {"vocab_size": None, **options}
    config = parse_pretraining_arguments(flags(tmp_path, **words))
    warnings = [message.partition("(") for message in caplog.messages if message.startswith("no effect")]
    (reason,) = (reason for names, _, reason in warnings if f"--{unused}" in names)
    assert named in reason
    assert unused in config.given & config.unused and unused not in config.record
    assert config.values()[unused] == expected.values()[unused]


OF_TOKENIZER = "lowercase max_documents min_frequency strip_accents tokenizer_algorithm vocab_size"
OF_EVALUATION = "eval_classify eval_corruption eval_pairs generator_gate"
OF_SAMPLES = "disallow_correct temperature"
OF_GENERATOR = (
    "discriminator_weight generator_gate generator_intermediate_size generator_layer_size generator_size tie "
    f"generator_num_attention_heads init_generator {OF_SAMPLES}"
)
ROTARY = "local_rope_theta rope_theta"


@parametrize(
    ("words", "more", "fewer"),
    [
        ("--objective=mlm", f"{OF_GENERATOR} generator_type eval_corruption", ""),
        ("--objective=replace_mlm", "eval_corruption", ""),
        ("--objective=electric", f"{OF_SAMPLES} eval_corruption", ""),
        ("--objective=adversarial", OF_SAMPLES, ""),
        ("--objective=two_stage --tie=none --generator_size=1", "discriminator_weight generator_gate "
         "init_discriminator", "generator_steps init_from_generator"),
        ("--objective=causal", f"{OF_GENERATOR} generator_type eval_corruption mlm_probability "
         "mlm_random_probability mlm_replacement_probability", ""),
        ("--generator_type=uniform", f"{OF_GENERATOR} mlm_random_probability mlm_replacement_probability", ""),
        ("--discriminator_type=bert --generator_size=1", "embedding_size", ""),
        ("--discriminator_type=modernbert --generator_size=1", "embedding_size", ROTARY),
        ("--init_discriminator=b", OF_TOKENIZER, ROTARY),
        ("--init_generator=b", OF_TOKENIZER, f"init_generator_layers {ROTARY}"),
        ("--init_checkpoint=b", f"{OF_TOKENIZER} tokenizer_path init_discriminator init_generator initialization", ""),
        ("--init_checkpoint=b --init_generator=b", f"{OF_TOKENIZER} tokenizer_path init_discriminator init_generator "
         "initialization", ROTARY),
        ("--tokenizer_path=b", OF_TOKENIZER, ""),
        ("--token_cache=b", f"{OF_TOKENIZER} train_file dataset_name dataset_config_name dataset_split "
         "dataset_sampling", ""),
        ("--tokenizer_algorithm=unigram", "min_frequency", ""),
        ("--validation_fraction=0", OF_EVALUATION, ""),
        ("--validation_fraction=0 --validation_file=b", "", ""),
        ("--eval_strategy=no", OF_EVALUATION, ""),
        ("--budget=1h", "max_steps", ROTARY),
        ("--max_steps=-1", "", "num_train_epochs"),
        ("--plan", "", "device_flops utilization"),
        ("--optim=adafactor", "adam_bias_correction", ""),
        ("--lr_scheduler_type=cosine", "product_schedule", ""),
        (f"--lr_scheduler_type={STABLE}", "product_schedule", "decay_steps"),
    ],
)  # fmt: skip
def test_what_an_option_takes_the_effect_from_and_gives_it_to(words, more, fewer):
    def unused(*words):
        return parse_pretraining_arguments(["--train_file=a", "--max_steps=9", *words]).unused

    usual, beside = unused(), unused(*words.split())
    assert (beside - usual, usual - beside) == ({*more.split()}, {*fewer.split()})


def test_a_decay_within_a_budget_is_a_share():
    budget = ["--train_file", "a.txt", "--budget", "1h", "--lr_scheduler_type", STABLE, "--decay_steps"]
    assert "--budget" in refused(lambda: parse_pretraining_arguments([*budget, "90"]))
    assert parse_pretraining_arguments([*budget, "0.2"]).training.decay_steps == 0.2


@parametrize(
    ("options", "named"),
    [
        ({"lr_scheduler_type": STABLE, "decay_steps": 11}, "--decay_steps"),
        ({"lr_scheduler_type": STABLE, "lr_scheduler_kwargs": '{"num_decay_steps": 0.1}'}, "num_decay_steps"),
        ({"lr_scheduler_type": STABLE, "lr_scheduler_kwargs": '{"decay": 1}'}, "--lr_scheduler_type"),
        ({"lr_scheduler_kwargs": '{"decay": 1}', "max_steps": -1}, "--lr_scheduler_type"),
        ({**TWO_STAGE, "generator_steps": 12}, "--generator_steps"),
    ],
    ids=str,
)
def test_steps_that_do_not_go_together_are_refused_before_the_text_is_read(options, named, tmp_path):
    (tmp_path / "corpus.txt").write_text("never read")
    assert named in refused(lambda: main(flags(tmp_path, **options)))
    assert [path.name for path in tmp_path.rglob("[!.]*") if path.is_file()] == ["corpus.txt"]


@parametrize("accumulation", [1, 2])
def test_modes_without_graphs_accumulate(tmp_path, accumulation):
    """Only CUDA graphs are refused, and only with micro-batches."""
    mode = "reduce-overhead" if accumulation == 1 else "max-autotune-no-cudagraphs"
    options = {"torch_compile_mode": mode, "gradient_accumulation_steps": accumulation}
    assert parse_pretraining_arguments(flags(tmp_path, **options)).training.torch_compile_mode == mode


@parametrize(("name", "value"), [("torch_compile_mode", "reduce-overhead"), ("torch_compile_backend", "cudagraphs")])
def test_graphs_that_lose_gradients_are_refused_in_a_program_too(tmp_path, name, value):
    make_arguments = partial(ElectraTrainingArguments, str(tmp_path / "run"), use_cpu=True, **{name: value})
    message = refused(lambda: make_arguments(gradient_accumulation_steps=2))
    assert name in message and "gradient_accumulation_steps" in message
    make_arguments()


@pytest.fixture
def parsed(tmp_path, caplog):
    """`parsed(objective, file, *more)`: the options, and the warnings of those without effect."""

    def make(objective, file=None, *more):
        caplog.clear()
        caplog.set_level(logging.INFO)
        config = [f"--config={file}"] if file else []
        args = parse_pretraining_arguments([*config, f"--objective={objective}", *more])
        assert args.objective.objective == objective
        return args, [line for line in caplog.messages if line.startswith("no effect")]

    return make


STUDY = CONFIGS / "pretraining" / "study_cpu.yaml"


@parametrize("objective", OBJECTIVES)
def test_an_objective_can_be_named_beside_a_file_of_another_one(parsed, tmp_path, objective):
    for file in (None, STUDY):
        args, lines = parsed(objective, file)
        has_generator = OBJECTIVES[objective].has_generator
        assert {"tie", "generator_size"} <= args.given
        assert bool({"tie", "generator_size"} & args.unused) == (not has_generator)
        assert all("None" not in line for line in lines)
        if not has_generator and file:
            assert all(f"--{name}" in lines[0] for name in ("tie", "generator_size", "generator_layer_size"))
    # The file that its run writes: each other objective can be named, and its own needs no remark.
    options = {
        "mlm": ["--mlm_replacement_probability=0.8", "--mlm_random_probability=0.1"],
        "electra": ["--tie=all", "--temperature=2"],
        "two_stage": ["--generator_steps=5", "--no_init_from_generator"],
        "replace_mlm": ["--discriminator_weight=5", "--generator_num_attention_heads=1", "--init_generator=g"],
    }
    required = {("electra", "two_stage"): ["--tie=none"]}  # what would be wrong is not replaced in silence
    args, _ = parsed(objective, STUDY, *options.get(objective, []))
    write_yaml(args.record, tmp_path / "config.yaml", "test")
    for other in OBJECTIVES:
        again, lines = parsed(other, tmp_path / "config.yaml", *required.get((objective, other), []))
        if other == objective:
            assert lines == [] and again.record == args.record


def test_steps_of_a_file_give_way_to_those_of_the_command_line(parsed, tmp_path):
    file = tmp_path / "epochs.yaml"
    file.write_text("max_steps: -1\nnum_train_epochs: 2\n")
    args, lines = parsed("electra", file)
    assert not lines and args.training.max_steps == -1
    args, (line,) = parsed("electra", file, "--max_steps=10")
    assert args.training.max_steps == 10 and "num_train_epochs" in line and "num_train_epochs" not in args.record
    budget, (line,) = parsed("electra", None, "--budget=2h", "--model_size=tiny", "--max_steps=7")
    assert "max_steps" in line and budget.training.max_steps != 7
    file.write_text("train_file: [a]\nbudget: 2h\n")
    for words in (["--auto_resume"], ["--resume_from_checkpoint=somewhere"]):  # not a million steps instead
        assert "--budget 2h" in refused(lambda words=words: parse_pretraining_arguments([f"--config={file}", *words]))


def held_out(*names):
    """Options with held-out texts of these names."""
    return parse_pretraining_arguments(
        ["--train_file=a", "--validation_file", *(f"{name}={name}.txt" for name in names)]
    )


@parametrize("objective", OBJECTIVES)
def test_no_held_out_text_is_called_like_the_metrics_of_another(objective):
    records = np.empty((0, 1, len(Field)), dtype=np.float32)
    for metric in evaluation_metrics(records, 1.0, OBJECTIVES[objective]):
        for name in (metric, metric.rpartition("_")[0]):
            if name:
                assert f" {name}" in refused(lambda name=name: held_out(name))


def test_names_of_held_out_texts_that_share_a_metric_are_refused():
    for names in (("new", "new_mlm"), ("new_all_tokens", "new"), ("fixed_discriminator",), ("fixed",)):
        assert "name" in refused(lambda names=names: held_out(*names))
    assert held_out("new", "old", "new_2", "masked_words").segments.validation_file
    assert held_out("copying", "de").segments.validation_file


def test_options_are_found_from_checkpoint_and_run(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    checkpoint = write_checkpoint(tmp_path / "run", 4)
    for name, problem in (
        (f"{checkpoint}/", "no config.yaml"),
        (tmp_path / "run", "no config.yaml"),
        (tmp_path / "nowhere", "no such folder"),
    ):
        assert problem in refused(lambda name=name: parse_pretraining_arguments([f"--resume_from_checkpoint={name}"]))
    (tmp_path / "run" / "config.yaml").write_text("seed: 1")
    for name in (f"{checkpoint}/", tmp_path / "run"):
        assert parse_pretraining_arguments([f"--resume_from_checkpoint={name}"]).training.seed == 1
    assert f"options of {tmp_path / 'run' / 'config.yaml'}" in caplog.text
    args = parse_pretraining_arguments([f"--resume_from_checkpoint={tmp_path / 'run'}"])
    assert open_run(args).checkpoint == str(checkpoint)


@parametrize("home", ["~", "$HOME", "${HOME}"])
@parametrize("is_file", [False, True])
def test_paths_of_flags_and_files_are_expanded_alike(home, is_file, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "tok").mkdir()
    names = {"train_file": "t.txt", "cache_dir": "cache", "output_dir": "out", "tokenizer_path": "tok"}
    options = {name: f"{home}/{path}" for name, path in names.items()}
    if is_file:
        write_yaml(options, tmp_path / "options.yaml", "")
        options = {"config": f"{home}/options.yaml"}
    values = parse_pretraining_arguments([f"--{name}={path}" for name, path in options.items()]).values()
    for name, path in names.items():
        assert values[name] == ([str(tmp_path / path)] if name == "train_file" else str(tmp_path / path)), name


@pytest.fixture
def resolved(tmp_path):
    """`resolved(**options)`: options resolved for a corpus of 10 segments; 4 segments are a step."""

    def make(step=0, has_held_out=True, **options):
        args = parse_pretraining_arguments(flags(tmp_path, **options))
        before = dict(vars(args.training))
        run = Run(tmp_path / "run", "checkpoint" if step else None, step=step)
        resolved_args = resolve_options(args, run, 10, has_held_out)
        assert vars(args.training) == before
        return resolved_args

    return make


def test_both_stages_need_steps(resolved):
    assert resolved(**TWO_STAGE, max_steps=13).objective.generator_steps == 6
    assert resolved(**TWO_STAGE, generator_steps=11).objective.generator_steps == 11
    for steps in (5, 25):  # the shorter stage has room for one step of a warm-up
        training = resolved(**TWO_STAGE, generator_steps=steps, max_steps=30, warmup_steps=None).training
        assert training.warmup_steps == 1
    for steps, max_steps in ((12, 12), (None, 1)):
        with raises(UserError, match=f"--max_steps {max_steps}"):
            resolved(**TWO_STAGE, generator_steps=steps, max_steps=max_steps)


def test_epochs_and_shares_become_steps(resolved):
    training = resolved(max_steps=-1, num_train_epochs=2, eval_strategy="epoch", save_steps=0.3).training
    assert (training.max_steps, training.eval_steps, training.save_steps, training.logging_steps) == (5, 3, 2, 4)
    assert training.eval_strategy == "steps" and training.output_dir.endswith("/run") and training.run_name == "run"
    assert resolved(gradient_accumulation_steps=3, max_steps=-1, num_train_epochs=2).training.max_steps == 2


def test_a_decay_of_a_run_in_epochs_fits_its_steps(resolved):
    options = {"max_steps": -1, "num_train_epochs": 4, "lr_scheduler_type": STABLE}  # 10 steps, 2 of warm-up
    assert resolved(**options, decay_steps=8).record["decay_steps"] == 8
    assert "decay_steps" not in resolved(**options).record
    assert "--decay_steps" in refused(lambda: resolved(**options, decay_steps=9))
    kwargs = '{"num_decay_steps": 9}'
    assert "num_decay_steps" in refused(lambda: resolved(**options, lr_scheduler_kwargs=kwargs))
    assert resolved(step=5, **options, lr_scheduler_kwargs=kwargs).training.max_steps == 10


def test_only_a_new_run_is_evaluated_at_its_start(resolved):
    assert resolved().training.eval_on_start and not resolved(step=12).training.eval_on_start
    assert resolved(step=12).training.eval_strategy == "steps"
    assert resolved(has_held_out=False).training.eval_strategy == "no"
    assert not resolved(has_held_out=False).training.eval_on_start
    with raises(UserError, match=r"12.*--max_steps 6"):
        resolved(step=12, max_steps=6)


def test_the_token_of_the_hub_is_kept(resolved):
    assert resolved(hub_token="hf_mine").training.hub_token == "hf_mine"


@parametrize(
    ("max_steps", "options", "expected"),
    [
        # warm-up, evaluation, checkpoint, log
        (1_000_000, {}, (10_000, 5000, 10_000, 100)),
        (12_000, {}, (1200, 600, 1200, 100)),
        (12, {}, (2, 1, 2, 1)),
        (12_000, {"warmup_steps": 9000, "logging_steps": 500}, (9000, 600, 1200, 500)),
        (12_000, {"eval_steps": 500}, (1200, 500, 1200, 100)),
    ],
)
def test_default_steps_fit_the_length_of_the_run(resolved, max_steps, options, expected):
    names = ("warmup_steps", "eval_steps", "save_steps", "logging_steps")
    args = resolved(max_steps=max_steps, **{**dict.fromkeys(names), **options})
    assert tuple(getattr(args.training, name) for name in names) == expected
    assert all(args.record[name] == value for name, value in zip(names, expected, strict=True))


def test_steps_of_a_file_win_over_the_default_ones(resolved, tmp_path):
    (tmp_path / "steps.yaml").write_text("save_steps: 500\n")
    assert resolved(save_steps=None, config=tmp_path / "steps.yaml").training.save_steps == 500


def test_a_file_may_name_values_and_merge_them(resolved, tmp_path):
    lines = "eval_steps: &often 500\nsave_steps: *often\n<<: &other {logging_steps: 25, eval_steps: 1}\n"
    (tmp_path / "steps.yaml").write_text(lines)
    steps = dict.fromkeys(("save_steps", "eval_steps", "logging_steps"))
    training = resolved(**steps, config=tmp_path / "steps.yaml").training
    assert (training.eval_steps, training.save_steps, training.logging_steps) == (500, 500, 25)


def test_an_extended_run_keeps_the_warm_up_that_it_had(tmp_path):
    args = parse_pretraining_arguments(flags(tmp_path, max_steps=12_000, warmup_steps=None))
    before = RunProvenance("text", 10, "held out", options={"warmup_steps": 2})
    run = Run(tmp_path / "run", "checkpoint-12", step=12, provenance=before)
    assert resolve_options(args, run, 10, has_held_out=True).training.warmup_steps == 2


INHERITED_BY_ANY_RUN = {
    **{"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3, "tie": "word", "max_length": 64},
    **{"mlm_probability": 0.2, "mlm_replacement_probability": 0.7, "mlm_random_probability": 0.1},
}
OF_NEXT_PHASE = {
    **INHERITED_BY_ANY_RUN,
    **{"discriminator_weight": 20.0, "generator_gate": ["loss", "1"], "temperature": 2.0, "disallow_correct": True},
    **{"discriminator_type": "modernbert", "generator_type": "electra", "embedding_size": 96, "hidden_size": 192},
    **{"num_hidden_layers": 5, "num_attention_heads": 3, "intermediate_size": 100, "max_position_embeddings": 640},
    **{"initializer_range": 0.05, "generator_size": 0.5, "generator_layer_size": 0.25},
    **{"generator_num_attention_heads": 1, "generator_intermediate_size": 50, "segment_policy": "packed"},
    **{"per_device_train_batch_size": 7, "gradient_accumulation_steps": 2, "learning_rate": 1e-3},
    **{"weight_decay": 0.2, "max_grad_norm": 2.0, "adam_beta1": 0.8, "adam_beta2": 0.98, "adam_epsilon": 1e-7},
    **{"adam_bias_correction": False, "optim": "adamw_torch", "optim_args": "a=1", "optim_target_modules": "b"},
}
OF_EARLIER_RUN = {
    **{"model_size": "tiny", "rope_theta": 500.0, "local_rope_theta": 600.0, "initialization": "local"},
    **{"validation_fraction": 0.2, "test_fraction": 0.1, "max_eval_segments": 9, "eval_corruption": "a"},
    **{"validation_file": ["b"], "text_column": "c", "cache_dir": "d", "experiment_name": "e"},
    **{"max_steps": 77, "warmup_steps": 5.0, "product_schedule": True, "seed": 1, "eval_seed": 2, "threads": 2},
    **{"eval_steps": 3.0, "save_steps": 4.0, "logging_steps": 5.0, "eval_pairs": "f", "checkpoint_fractions": [0.5]},
}
"""Options of a run with values that are no defaults: those that a run has from that of its networks, those that only a
run from its checkpoint has, which goes on with its optimizer, and those of its text, its length and its evaluation."""


@parametrize(("option", "taken"), [("init_checkpoint", OF_NEXT_PHASE), ("init_discriminator", INHERITED_BY_ANY_RUN)])
def test_what_a_run_takes_over_from_the_run_before(tmp_path, option, taken):
    run = write_checkpoint(tmp_path / "run", 4).parent
    before = {**OF_NEXT_PHASE, **OF_EARLIER_RUN}
    write_yaml(before, run / "config.yaml", "")
    values = parse_pretraining_arguments(["--train_file=text", f"--{option}={run}"]).values()
    assert {name for name, value in before.items() if values[name] == value} == taken.keys()
    write_yaml({"objective": "mlm"}, run / "config.yaml", "")
    args = parse_pretraining_arguments(["--train_file=text", f"--{option}={run}"])
    assert args.objective.objective == ("mlm" if option == "init_checkpoint" else "electra")


def test_a_run_inherits_from_that_of_its_networks(tmp_path):
    run = tmp_path / "first"
    (run / "discriminator").mkdir(parents=True)
    lines = "tie: none\nhidden_dropout_prob: 0.0\nmlm_probability: 0.25\nmax_length: 64\nlearning_rate: 1e-3\n"
    (run / "config.yaml").write_text(lines)
    for start in (run, run / "discriminator"):
        args = parse_pretraining_arguments(["--train_file=text", f"--init_discriminator={start}", "--max_length=32"])
        assert (args.model.tie, args.model.hidden_dropout_prob, args.objective.mlm_probability) == ("none", 0.0, 0.25)
        assert args.segments.max_length == 32  # given
        assert args.training.learning_rate == 5e-4  # of the recipe
        assert args.record["tie"] == "none"
    start = ["--train_file=text", f"--init_discriminator={run}"]
    causal = parse_pretraining_arguments([*start, "--objective=causal"])
    assert causal.objective.mlm_probability == 0.15  # it masks nothing, and inherits no share
    other = parse_pretraining_arguments([*start, "--objective=replace_mlm"])
    assert (other.model.tie, other.objective.mlm_probability) == (None, 0.25)  # what is shared is the objective's


def test_a_recipe_sets_the_arguments_of_a_program(tmp_path):
    for recipe in RECIPES:
        args = ElectraTrainingArguments.from_recipe(recipe, str(tmp_path), use_cpu=True)
        command = parse_pretraining_arguments(["--train_file=text", f"--model_size={recipe}"]).training
        for name in ("max_steps", "per_device_train_batch_size", "learning_rate", "warmup_steps", "adam_epsilon"):
            assert getattr(args, name) == getattr(command, name) == RECIPES[recipe][name]
    short = ElectraTrainingArguments.from_recipe("tiny", str(tmp_path), max_steps=100, learning_rate=1e-4)
    assert short.given == {"learning_rate", "max_steps", "output_dir"} and short.learning_rate == 1e-4
    assert ElectraTrainingArguments.from_recipe("tiny", str(tmp_path), num_train_epochs=2).max_steps == -1
    assert "tiny" in refused(lambda: ElectraTrainingArguments.from_recipe("tinny", str(tmp_path)))
