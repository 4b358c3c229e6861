"""Where runs go and what is resumed: nothing is overwritten, and what does not fit is refused."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pytest import raises

from electra.base.console import RunLog
from electra.core.errors import UserError
from electra.core.objectives import KEYS, OBJECTIVES
from electra.data.options import SegmentArguments
from electra.pretraining.configuration import RESUMING, ElectraTrainingArguments
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run_folder import (
    Run,
    RunProvenance,
    check_optimizer_of,
    check_resumed,
    create_or_discard_folder,
    new_run_folder,
    open_run,
    provenance_of,
    save_options,
)
from tests.base.test_checkpoints import write_checkpoint
from tests.conftest import refused
from tests.helpers import files_up_to, parametrize, read_json
from tests.pretraining.runs import flags


def opened(folder, **options):
    """The `Run` of a tiny run's command line."""
    return open_run(parse_pretraining_arguments(flags(folder, **options)))


# ---- a new folder


def test_a_run_gets_a_folder_of_its_name_or_a_number(tmp_path):
    for expected in ("run", "run-2", "run-3"):
        folder = opened(tmp_path).folder
        assert folder == tmp_path / "output" / expected and not folder.exists()
        folder.mkdir()
        (folder / ".hidden").touch()
    (tmp_path / "file").write_text("precious")
    (tmp_path / ".file-2.lock").touch()  # left by a process that has ended
    assert new_run_folder(tmp_path / "file") == tmp_path / "file-2"


def test_a_run_that_has_not_ended_can_be_continued(tmp_path, caplog):
    folder = opened(tmp_path).folder
    write_checkpoint(folder, 2)
    assert opened(tmp_path).folder != folder
    assert f"--resume_from_checkpoint {folder}" in caplog.text


def test_an_empty_folder_is_used_by_one_of_several_runs(tmp_path):
    (tmp_path / "run").mkdir()
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: new_run_folder(tmp_path / "run"), range(8)))
    assert sorted(folder.name for folder in folders) == ["run", *(f"run-{number}" for number in range(2, 9))]


@parametrize("auto_resume", [False, True])
def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path, auto_resume):
    (tmp_path / "output").write_text("in the way")
    for name in ("a/b", ".."):
        message = refused(lambda name=name: opened(tmp_path, experiment_name=name, auto_resume=auto_resume))
        assert "--experiment_name" in message


# ---- what is resumed: see also test_find_run.py


def test_a_resumed_run_is_not_asked_to_write_elsewhere(tmp_path):
    run = write_checkpoint(tmp_path / "output" / "run-2", 4).parent
    resume = {"resume_from_checkpoint": run, "output_dir": None, "experiment_name": None}
    for name, value in (("output_dir", tmp_path / "new"), ("experiment_name", "new"), ("experiment_name", "run-1")):
        message = refused(lambda name=name, value=value: opened(tmp_path, **{**resume, name: value}))
        assert f"--{name} {value}" in message and str(run) in message
    (tmp_path / "link").symlink_to(run)
    places = ((tmp_path / "output", "run"), (tmp_path / "output", "run-2"), (tmp_path, "link"), (None, None))
    for output_dir, name in places:
        assert opened(tmp_path, **{**resume, "output_dir": output_dir, "experiment_name": name}).folder == run


# ---- what must stay

TEXT = {"training_text": "t", "training_documents": 4, "held_out_text": "h"}


def provenance_of_start(args):
    """The provenance of a run with these options, as its start records it."""
    return provenance_of(args.used_values(), TEXT, args.training.segments_per_step)


@pytest.fixture
def provenance(tmp_path):
    """The provenance of a tiny run."""
    return provenance_of_start(parse_pretraining_arguments(flags(tmp_path)))


def resumed(before, now):
    """The provenance of a start at step 4 of a run."""
    return check_resumed(Run(None, "checkpoint-4", step=4, provenance=before), now, {})


def with_options(provenance, **options):
    """The provenance with other values of some options."""
    return replace(provenance, options={**provenance.options, **options})


def test_an_option_that_changes_learning_is_refused_or_recorded(provenance):
    assert resumed(provenance, provenance) == provenance
    assert {"objective", "learning_rate", "hidden_size", "optim"} <= set(provenance.options)
    assert {RESUMING[name] for name in provenance.options} == {"kept", "recorded"}
    for name in provenance.options:
        other = with_options(provenance, **{name: "another"})
        if RESUMING[name] == "kept":
            with raises(UserError, match=rf"--{name}\b.*another"):
                resumed(provenance, other)
        else:
            line = f"from step 4 on: {name} another instead of {provenance.options[name]}"
            assert resumed(provenance, other).changes == [line]


def test_an_option_that_is_newer_than_the_run_had_its_default(provenance):
    """Whether the command made the run or a program, which records no options of tokenizer and networks."""
    of_program = {*vars(SegmentArguments()), *vars(ElectraTrainingArguments("a")), *KEYS, "objective", "tie"}
    values = {name: getattr(OBJECTIVES["electra"], name) for name in KEYS}
    program = {**{name: value for name, value in provenance.options.items() if name in of_program}, **values}
    for options in (provenance.options, program):
        for name, value, other in (
            ("segment_policy", "windows", "document"),
            ("disallow_correct", False, True),
            ("decay_steps", None, 5),
        ):
            then = replace(provenance, options={key: options[key] for key in options.keys() - {name}})
            unchanged = replace(provenance, options={**options, name: value})
            assert resumed(then, unchanged).changes == []
            now = replace(provenance, options={**options, name: other})
            if name == "decay_steps":
                assert resumed(then, now).changes == [f"from step 4 on: {name} {other} instead of {value}"]
            else:
                with raises(UserError, match=f"--{name}.*{other}"):
                    resumed(then, now)


def test_what_the_run_has_recorded_is_named_before_what_had_no_effect_then(provenance):
    then = {name: value for name, value in provenance.options.items() if name != "generator_size"}
    before = replace(provenance, options={**then, "objective": "mlm"})
    with raises(UserError, match="--objective mlm"):
        resumed(before, with_options(provenance, generator_size=0.7))


@parametrize("start", [{"tokenizer_path": "tok"}, {"init_discriminator": "network"}, {"objective": "mlm"}], ids=str)
def test_both_records_of_a_run_are_of_the_options_that_decide_something(tmp_path, start):
    (tmp_path / "a.yaml").write_text("strip_accents: true\ntokenizer_algorithm: byte_bpe\ntie: none\n")
    args = parse_pretraining_arguments(flags(tmp_path, config=tmp_path / "a.yaml", **start))
    options = provenance_of_start(args).options
    unused = {"tie", "generator_size"} if "objective" in start else {"strip_accents", "lowercase", "vocab_size"}
    assert args.unused >= unused
    assert not args.unused & (set(options) | set(args.record))
    # What an earlier version recorded of them decides nothing.
    before = RunProvenance("t", 4, "h", batch_size=4, options={**options, **dict.fromkeys(args.unused, "another")})
    assert resumed(before, provenance_of_start(args)).changes == []


def test_changes_of_earlier_starts_are_kept(provenance):
    earlier = ["from step 2 on: learning_rate 2 instead of 1"]
    before = replace(provenance, changes=earlier)
    continued = resumed(before, replace(provenance, first_held_out_text="another"))
    assert continued.changes == earlier and continued.first_held_out_text == "h"


def test_trained_networks_that_are_gone_since_are_still_the_same(provenance, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    then = with_options(provenance, init_generator=f"{tmp_path}/g")
    assert resumed(then, with_options(provenance, init_generator="g")).changes == []


@parametrize(("name", "named"), [("batch_size", "4 .* 9"), ("training_text", "4 ")])
def test_another_text_or_batch_is_refused(provenance, name, named):
    with raises(UserError, match=named):
        resumed(provenance, replace(provenance, **{name: 9}))


def test_the_next_phase_keeps_the_optimizer_but_for_its_kernel(tmp_path):
    checkpoint = write_checkpoint(tmp_path / "run", 4)
    kept = {"optim": "adamw_torch", "optim_args": None, "optim_target_modules": None, "adam_bias_correction": True}
    origin = read_json(checkpoint / "origin.json")
    origin["options"] = {**kept, "optim": "adamw_torch_fused"}
    (checkpoint / "origin.json").write_text(json.dumps(origin))
    options = {**vars(ElectraTrainingArguments(str(tmp_path))), **kept}
    check_optimizer_of(checkpoint, options)
    for name in kept:
        assert f"--{name} " in refused(lambda name=name: check_optimizer_of(checkpoint, {**options, name: "another"}))


# ---- what is written


def test_a_run_writes_below_its_folder(tmp_path, wordpiece_tokenizer):
    args = parse_pretraining_arguments(
        flags(tmp_path, learning_rate=3e-3, dataset_sampling=0.5, lowercase="false", auto_resume=True)
    )
    run = open_run(args)
    with create_or_discard_folder(run):
        save_options(args.record, run, wordpiece_tokenizer)
    assert {path.name for path in run.folder.iterdir()} == {"config.yaml", "tokenizer"}
    assert (run.folder / "tokenizer" / "tokenizer.json").is_file()
    text = (run.folder / "config.yaml").read_text()
    assert "auto_resume" not in text
    again = parse_pretraining_arguments(["--config", str(run.folder / "config.yaml")])
    assert (again.corpus, again.training.learning_rate) == (args.corpus, 3e-3)
    assert again.training.output_dir == str(tmp_path / "output") and again.training.experiment_name == "run"


@parametrize("max_steps", [4, 12])
def test_resuming_leaves_the_results_of_an_earlier_end(tmp_path, wordpiece_tokenizer, max_steps):
    run = write_checkpoint(tmp_path / "output" / "run", 4).parent
    results = {"report.html", "metrics.json", "trainer_state.json", "discriminator"}
    for name in results:
        (run / name).write_text("of step 4")
    args = parse_pretraining_arguments(flags(tmp_path, resume_from_checkpoint=run, max_steps=max_steps))
    continued = open_run(args)
    assert (continued.folder, continued.checkpoint) == (run, str(run / "checkpoint-4"))
    save_options(args.record, continued, wordpiece_tokenizer)
    assert "resume_from_checkpoint" not in (run / "config.yaml").read_text()
    assert {path.name for path in run.iterdir()} == {"checkpoint-4", "config.yaml", *results}
    assert {(run / name).read_text() for name in results} == {"of step 4"}


@parametrize(
    ("limit", "is_full"),  # at config.yaml, tokenizer_config.json, tokenizer.json, and at log.txt, which no run needs
    [(10, True), (200, True), (2000, True), (100_000, False)],
)
@parametrize("is_new", [True, False])
def test_a_full_disk_at_the_first_files_ends_the_run_and_leaves_no_new_folder(
    tmp_path, wordpiece_tokenizer, limit, is_full, is_new
):
    run = Run(tmp_path / "run")
    if not is_new:
        run.folder.mkdir()
        (run.folder / "config.yaml").touch()  # of an earlier start without a checkpoint
    log = RunLog()
    logging.getLogger("electra").warning("x" * 200_000)

    def write():
        with files_up_to(limit), create_or_discard_folder(run):
            save_options({"max_steps": 4}, run, wordpiece_tokenizer)
            log.write_to(run.folder)

    try:
        if is_full:
            message = refused(write)
            assert str(run.folder) in message and "File too large" in message
        else:
            write()
    finally:
        logging.getLogger("electra").removeHandler(log)
    assert run.folder.exists() == (not is_full or not is_new)
