"""What a resumed run must have in common with its checkpoint, and what may change."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from electra.checkpoint import ORIGIN_NAME
from electra.data.corpus import absolute_dataset_name
from electra.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.options import GROUPS, parse_arguments
from electra.pretraining.resume import RULES, Rule, check_resumed, origin_of, tokenizer_of
from tests.pretraining.runs import flags

MakePair = Callable[..., ElectraForJointPretraining]


def test_every_option_has_a_rule() -> None:
    options = {f.name for group in GROUPS for f in fields(group)}
    assert options <= set(RULES), "say in RULES what resuming does about it"


def start(folder: Path, model: ElectraForJointPretraining) -> dict[str, Any]:
    hashes = np.arange(5, dtype=np.uint64)
    return origin_of(parse_arguments(flags(folder)), model, hashes, np.arange(4), "held out", 8)


@pytest.fixture
def begun(tmp_path: Path, make_pair: MakePair) -> tuple[Path, ElectraForJointPretraining, dict[str, Any]]:
    """A checkpoint of step 4, its networks, and what it and an unchanged start say."""
    model, checkpoint = make_pair(), tmp_path / "checkpoint-4"
    model.save_pretrained(checkpoint)
    state = {"global_step": 4, "max_steps": 12, "save_steps": 4, "eval_steps": 6, "logging_steps": 4}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    origin = start(tmp_path, model)
    (checkpoint / ORIGIN_NAME).write_text(json.dumps(origin))
    return checkpoint, model, origin


def test_each_option_that_changes_what_is_learned_is_refused_or_recorded(
    begun: tuple[Path, ElectraForJointPretraining, dict[str, Any]],
) -> None:
    checkpoint, model, origin = begun
    assert check_resumed(checkpoint, origin, model, "")["changes"] == []
    recorded = {rule: {name for name in origin["options"] if RULES[name] is rule} for rule in Rule}
    assert recorded[Rule.KEPT] and recorded[Rule.NEW] and not recorded[Rule.FREE] | recorded[Rule.COMPARED]
    for name in origin["options"]:
        other = {**origin, "options": {**origin["options"], name: "another"}}
        if RULES[name] is Rule.KEPT:
            with pytest.raises(UserError, match=f"--{name} .*not another"):
                check_resumed(checkpoint, other, model, "")
            continue
        change = {"step": 4, "option": name, "before": origin["options"][name], "now": "another"}
        assert check_resumed(checkpoint, other, model, "")["changes"] == [change]


def test_changes_of_earlier_starts_are_kept(begun: tuple[Path, ElectraForJointPretraining, dict[str, Any]]) -> None:
    checkpoint, model, origin = begun
    earlier = [{"step": 2, "option": "learning_rate", "before": 1, "now": 2}]
    (checkpoint / ORIGIN_NAME).write_text(json.dumps({**origin, "changes": earlier}))
    assert check_resumed(checkpoint, origin, model, "")["changes"] == earlier


def test_a_schedule_with_a_memory_keeps_its_learning_rate(
    begun: tuple[Path, ElectraForJointPretraining, dict[str, Any]],
) -> None:
    checkpoint, model, origin = begun
    origin["options"]["lr_scheduler_type"] = "reduce_lr_on_plateau"
    (checkpoint / ORIGIN_NAME).write_text(json.dumps(origin))
    origin["options"]["learning_rate"] = 1.0
    with pytest.raises(UserError, match=r"--learning_rate 0\.001, not 1\.0"):
        check_resumed(checkpoint, origin, model, "")


def test_a_checkpoint_that_records_fewer_options_is_compared_by_its_other_files(
    begun: tuple[Path, ElectraForJointPretraining, dict[str, Any]], make_pair: MakePair, tmp_path: Path
) -> None:
    checkpoint, model, origin = begun
    old = {name: value for name, value in origin.items() if name not in ("options", "changes")}
    (checkpoint / ORIGIN_NAME).write_text(json.dumps({**old, "bf16": not origin["options"]["bf16"], "options": {}}))
    origin["options"] |= {"save_steps": 2, "learning_rate": 1.0}
    found = check_resumed(checkpoint, origin, model, "")["changes"]
    assert {change["option"] for change in found} == {"bf16", "save_steps"}
    for name, value in {"mlm_probability": 0.3, "discriminator_weight": 1.0, "sampling_temperature": 2.0}.items():
        other = make_pair(**{name: value})
        with pytest.raises(UserError, match=f"--{name.removeprefix('sampling_')} "):
            check_resumed(checkpoint, start(tmp_path, other), other, "")
    (checkpoint / ORIGIN_NAME).unlink()
    assert check_resumed(checkpoint, origin, model, "")["first_held_out_text"] is None


def resume_with(checkpoint: Path, model: ElectraForJointPretraining) -> None:
    check_resumed(checkpoint, start(checkpoint.parent, model), model, "")


def test_another_architecture_than_the_checkpoints_is_refused_with_the_differences(
    begun: tuple[Path, ElectraForJointPretraining, dict[str, Any]], make_pair: MakePair
) -> None:
    checkpoint, _, _ = begun
    with pytest.raises(UserError) as error:
        resume_with(checkpoint, make_pair(hidden_size=64))
    message = str(error.value)
    assert str(checkpoint) in message
    assert "discriminator.hidden_size is 32 there and 64 here" in message
    assert "generator.hidden_size is 16 there and 32 here" in message
    assert "vocab_size" not in message
    make_pair(hidden_size=256).save_pretrained(checkpoint)  # 256 is ElectraConfig's own default
    with pytest.raises(UserError, match=r"discriminator\.hidden_size is 256 there and 32 here"):
        resume_with(checkpoint, make_pair())


def test_a_checkpoint_without_an_objective_is_electras(
    begun: tuple[Path, ElectraForJointPretraining, dict[str, Any]], make_pair: MakePair
) -> None:
    checkpoint, model, _ = begun
    (checkpoint / ORIGIN_NAME).unlink()
    values = json.loads((checkpoint / "config.json").read_text())
    assert values.pop("objective") == "electra"
    (checkpoint / "config.json").write_text(json.dumps(values))
    resume_with(checkpoint, model)
    with pytest.raises(UserError, match="was trained with --objective electra, not mlm"):
        resume_with(checkpoint, make_pair(objective="mlm"))


@pytest.mark.parametrize("content", [None, "{not json"])
def test_a_checkpoint_without_a_readable_configuration_is_refused(
    begun: tuple[Path, ElectraForJointPretraining, dict[str, Any]], content: str | None
) -> None:
    checkpoint, model, _ = begun
    (checkpoint / "config.json").unlink() if content is None else (checkpoint / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json in "):
        resume_with(checkpoint, model)


def test_the_tokenizer_is_the_checkpoints_and_another_one_is_refused(
    tmp_path: Path, wordpiece_tokenizer: PreTrainedTokenizerBase, number_tokenizer: PreTrainedTokenizerBase
) -> None:
    checkpoint, moved, other = (tmp_path / name for name in ("checkpoint-4", "moved", "other"))
    wordpiece_tokenizer.save_pretrained(checkpoint)
    number_tokenizer.save_pretrained(other)
    for named in (None, str(checkpoint), str(moved)):
        assert tokenizer_of(checkpoint, named).get_vocab() == wordpiece_tokenizer.get_vocab()
    with pytest.raises(UserError, match=rf"\(6000 tokens\) is not the one of .*\({len(wordpiece_tokenizer)} tokens\)"):
        tokenizer_of(checkpoint, str(other))


def test_a_folder_of_data_is_recorded_as_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "builtin").mkdir()
    (tmp_path / "wikitext").mkdir()
    monkeypatch.chdir(tmp_path)
    assert absolute_dataset_name("data") == str(tmp_path / "data")
    assert [absolute_dataset_name(name) for name in ("builtin", "wikitext", "owner/data")] == [
        "builtin",
        "wikitext",
        "owner/data",
    ]
