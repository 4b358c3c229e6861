"""What a resumed run must have in common with its checkpoint, and what may change."""

import json
from dataclasses import replace

import pytest
import torch
from pytest import raises

from electra.io.checkpoints import ORIGIN_NAME
from electra.io.errors import UserError
from electra.pretraining.configuration import RESUMING
from electra.pretraining.options import parse_arguments
from electra.pretraining.resume import (
    BEST_METRIC_OPTIONS,
    Origin,
    check_resumed,
    keeping_options,
    origin_of,
    tokenizer_of,
    translate_loading_errors,
)
from tests.helpers import parametrize
from tests.pretraining.runs import flags

TEXT = Origin(corpus="c", documents=5, training_text="t", training_documents=4, held_out_text="h")


@pytest.fixture
def begun(tmp_path, make_pair):
    """A checkpoint of step 4, its networks, and what it and an unchanged start say."""
    model, checkpoint = make_pair(), tmp_path / "checkpoint-4"
    model.save_pretrained(checkpoint)
    (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": 4, "max_steps": 12}))
    origin = origin_of(parse_arguments(flags(tmp_path, muon_learning_rate=1e-3)).values(), model, TEXT, 8)
    write(checkpoint, origin)
    return checkpoint, model, origin


def write(checkpoint, origin):
    (checkpoint / ORIGIN_NAME).write_text(json.dumps(origin.as_dict()))


def with_options(origin, **options):
    return replace(origin, options={**origin.options, **options})


def test_an_option_that_changes_learning_is_refused_or_recorded(begun):
    checkpoint, model, origin = begun
    assert check_resumed(checkpoint, origin, model) == origin
    assert {"objective", "learning_rate"} <= set(origin.options)
    assert {RESUMING[name] for name in origin.options} == {"kept", "recorded"}
    for name in origin.options:
        other = with_options(origin, **{name: "another"})
        if RESUMING[name] == "kept":
            with raises(UserError, match=f"--{name} .*another"):
                check_resumed(checkpoint, other, model)
            continue
        is_text = name in ("validation_file", "validation_fraction", "eval_corruption")
        change = {"step": 4, "option": name, "before": origin.options[name], "now": "another"}
        assert check_resumed(checkpoint, other, model).changes == ([] if is_text else [change])


def test_changes_of_earlier_starts_are_kept(begun):
    checkpoint, model, origin = begun
    earlier = [{"step": 2, "option": "learning_rate", "before": 1, "now": 2}]
    write(checkpoint, replace(origin, changes=earlier))
    kept = check_resumed(checkpoint, replace(origin, first_held_out_text="another"), model)
    assert kept.changes == earlier and kept.first_held_out_text == "h"


@parametrize("file", ["a", "b"])
def test_held_out_text_of_another_content_is_recorded(begun, file):
    checkpoint, model, origin = begun
    write(checkpoint, with_options(origin, validation_file=["/a"]))
    now = replace(with_options(origin, validation_file=[f"/{file}"]), held_out_text="other text")
    (change,) = check_resumed(checkpoint, now, model).changes
    if file == "a":  # replaced in place
        assert change == {"step": 4, "option": "held_out_text", "before": "h", "now": "other te"}
    else:
        assert change == {"step": 4, "option": "validation_file", "before": ["/a"], "now": ["/b"]}
    assert change["option"] in BEST_METRIC_OPTIONS


def test_origins_of_earlier_versions_can_be_read(begun):
    checkpoint, model, origin = begun
    saved = origin.as_dict()
    del saved["held_out_text"]
    saved["options"]["data_seed"] = saved["options"].pop("eval_seed")
    (checkpoint / ORIGIN_NAME).write_text(json.dumps(saved))
    assert Origin.read(checkpoint) == origin
    assert check_resumed(checkpoint, origin, model).changes == []
    with raises(UserError, match="--eval_seed"):
        check_resumed(checkpoint, with_options(origin, eval_seed=7), model)


def test_trained_networks_that_are_gone_since_are_still_the_same(begun, tmp_path, monkeypatch):
    checkpoint, model, origin = begun
    monkeypatch.chdir(tmp_path)
    then = with_options(origin, init_generator=f"{tmp_path}/g")
    now = with_options(origin, init_generator="g")
    write(checkpoint, then)
    assert check_resumed(checkpoint, now, model) == then


@parametrize(("name", "named"), [("batch_size", "8 .* 9"), ("corpus", "5 "), ("training_text", "4 ")])
def test_another_text_or_batch_is_refused(begun, name, named):
    checkpoint, model, origin = begun
    with raises(UserError, match=named):
        check_resumed(checkpoint, replace(origin, **{name: 9}), model)


def test_values_of_the_objective_are_recorded(begun):
    checkpoint, model, origin = begun
    options = origin.options
    assert (options["discriminator_weight"], options["mlm_replacement_probability"]) == (50.0, 0.85)
    assert options["optim"] == "adamw_torch_fused"
    assert check_resumed(checkpoint, with_options(origin, optim="adamw_torch"), model).changes == []


def test_a_schedule_with_a_memory_keeps_its_learning_rate(begun):
    checkpoint, model, origin = begun
    origin = with_options(origin, lr_scheduler_type="reduce_lr_on_plateau")
    write(checkpoint, origin)
    with raises(UserError, match="--learning_rate"):
        check_resumed(checkpoint, with_options(origin, learning_rate=1.0), model)


@parametrize(("before", "now"), [(None, 1e-3), (1e-3, None), (1e-3, 5e-4)])
def test_muon_s_rate_changes_but_not_the_optimizer(begun, before, now):
    checkpoint, model, origin = begun
    origin = with_options(origin, muon_learning_rate=before)
    write(checkpoint, origin)
    origin = with_options(origin, muon_learning_rate=now)
    if before is not None and now is not None:
        change = {"step": 4, "option": "muon_learning_rate", "before": before, "now": now}
        assert check_resumed(checkpoint, origin, model).changes == [change]
        return
    with raises(UserError, match="--muon_learning_rate"):
        check_resumed(checkpoint, origin, model)


def test_another_architecture_is_refused_with_the_differences(begun, make_pair):
    checkpoint, _, origin = begun
    with raises(UserError, match=r"discriminator\.hidden_size is 32 .* 64") as error:
        check_resumed(checkpoint, origin, make_pair(hidden_size=64))
    assert "generator.hidden_size is 16" in str(error.value) and "vocab_size" not in str(error.value)
    with raises(UserError, match="tie is embeddings there and none"):
        check_resumed(checkpoint, origin, make_pair(tie="none"))
    make_pair(hidden_size=256).save_pretrained(checkpoint)  # 256 is ElectraConfig's own default
    with raises(UserError, match=r"discriminator\.hidden_size is 256"):
        check_resumed(checkpoint, origin, make_pair())


@parametrize("name", ["config.json", ORIGIN_NAME])
@parametrize("content", [None, "{not json", "[1]"])
def test_a_checkpoint_without_a_readable_record_is_refused(begun, name, content):
    checkpoint, model, origin = begun
    (checkpoint / name).unlink() if content is None else (checkpoint / name).write_text(content)
    with raises(UserError, match=name):
        check_resumed(checkpoint, origin, model)


def test_the_tokenizer_is_the_checkpoint_s(tmp_path, wordpiece_tokenizer, number_tokenizer):
    checkpoint, moved, other = (tmp_path / name for name in ("checkpoint-4", "moved", "other"))
    wordpiece_tokenizer.save_pretrained(checkpoint)
    number_tokenizer.save_pretrained(other)
    for named in (None, str(checkpoint), str(moved)):
        assert tokenizer_of(checkpoint, named).get_vocab() == wordpiece_tokenizer.get_vocab()
    with raises(UserError, match=f"6000 .*{len(wordpiece_tokenizer)}"):
        tokenizer_of(checkpoint, str(other))


def test_options_outlive_loading_and_kernels_do_not():
    def make(rate, **options):
        optimizer = torch.optim.AdamW([torch.ones(1, requires_grad=True)], lr=rate, **options)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    before, after = make(1.0, weight_decay=0.1, foreach=True), make(4.0, betas=(0.5, 0.6), eps=1e-3)
    before[0].step()
    before[1].step()
    with keeping_options(*after):
        for one, other in zip(after, before, strict=True):
            one.load_state_dict(other.state_dict())
    (group,) = after[0].param_groups
    assert (group["weight_decay"], group["betas"], group["eps"], group["foreach"]) == (0.01, (0.5, 0.6), 1e-3, True)
    assert group["lr"] == 2.0 and after[1].get_last_lr() == [2.0] and after[1].base_lrs == [4.0]


def test_a_mistake_of_ours_is_not_a_damaged_file():
    with raises(UserError, match="weights cannot be loaded"), translate_loading_errors("run", "weights"):
        raise RuntimeError("a wrong size")
    for error in (TypeError("a bug"), RuntimeError("CUDA out of memory")):
        with raises(type(error), match=str(error)), translate_loading_errors("run", "weights"):
            raise error
