"""Starting from trained networks: their weights, their sizes, their tokenizer, and what does not fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from electra.errors import UserError
from electra.finetuning.encoder import load_encoder
from run_pretraining import main
from tests.pretraining.runs import TINY, flags, write_corpus

SIZES = dict.fromkeys(
    ("embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
)
"""No flags for what the trained network has already."""
NOTHING_LEARNED = {"learning_rate": 0.0, "max_steps": 1, "eval_strategy": "no", "validation_fraction": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with exports."""
    folder = tmp_path_factory.mktemp("trained")
    write_corpus(folder / "corpus.txt")
    main(flags(folder, experiment_name="first", max_steps=2))
    return folder / "output" / "first"


def continue_from(trained: Path, folder: Path, **options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    write_corpus(folder / "corpus.txt")
    main(flags(folder, **{**SIZES, "max_position_embeddings": None, **options}, experiment_name="second"))
    return folder / "output" / "second"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_a_released_discriminator_keeps_all_its_weights_beside_a_small_fresh_generator(
    trained: Path, tmp_path: Path
) -> None:
    run = continue_from(
        trained, tmp_path, init_discriminator=trained / "discriminator", generator_size=0.25, **NOTHING_LEARNED
    )
    before, after = weights(trained / "discriminator"), weights(run / "discriminator")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)  # embeddings and head, too
    generator = AutoModel.from_pretrained(run / "generator")
    assert generator.config.hidden_size == TINY["hidden_size"] / 4
    table = "electra.embeddings.word_embeddings.weight"
    assert torch.equal(weights(run / "generator")[table], before[table])
    state = json.loads((run / "checkpoint-1" / "trainer_state.json").read_text())
    assert state["global_step"] == 1  # a schedule of its own, from step 0


def test_both_networks_can_be_continued_and_the_run_folder_is_enough_to_name_them(
    trained: Path, tmp_path: Path
) -> None:
    run = continue_from(
        trained, tmp_path, init_discriminator=trained, init_generator=trained, generator_size=None, **NOTHING_LEARNED
    )
    for role in ("discriminator", "generator"):
        before, after = weights(trained / role), weights(run / role)
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_another_objective_s_network_is_continued_with_a_fresh_head_and_that_is_said(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = continue_from(
        trained, tmp_path, init_discriminator=trained / "generator", **NOTHING_LEARNED, generator_size=1.0
    )
    said = capsys.readouterr().out
    assert "discriminator_predictions.dense.weight" in said and ", fresh" in said
    before, after = weights(trained / "generator"), weights(run / "discriminator")
    encoder = [name for name in before if name.startswith("electra.")]
    assert encoder and all(torch.equal(before[name], after[name]) for name in encoder)


def test_a_continued_run_resumes_without_what_it_started_from(trained: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in (trained / "discriminator").iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    run = continue_from(trained, tmp_path, init_discriminator=moved, max_steps=4, save_steps=2)
    whole = weights(run / "discriminator")
    for path in moved.iterdir():
        path.unlink()
    moved.rmdir()
    main([f"--resume_from_checkpoint={run / 'checkpoint-2'}"])
    resumed = weights(run / "discriminator")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init_discriminator": "nowhere/at/all"}, "there is no folder 'nowhere/at/all'"),
        ({"init_discriminator": ""}, "--init_discriminator '' is not possible"),
        ({"discriminator_type": "bert"}, "--discriminator_type bert: .*has its own, electra; leave it out"),
        ({"max_length": 33, "max_position_embeddings": 64}, "max_position_embeddings 64: .*its own, 32"),
        (
            {"objective": "two_stage", "generator_size": 1.0},
            "--init_discriminator .*starts the discriminator from the",
        ),
        ({"init_discriminator": "{shallow}"}, r"has, beyond its configuration, \d+ of the encoder's weights"),
        ({"hidden_size": 64}, r"--hidden_size 64: .*has its own, 32; leave it out"),
        ({"tokenizer_path": "{other}"}, "the tokenizer .* is not the one that lies with the model"),
        ({"init_discriminator": "{checkpoint}"}, "checkpoint of a run; name its exported discriminator/ folder"),
        ({"init_discriminator": "{damaged}"}, "its weights cannot be loaded; they are damaged"),
        ({"init_discriminator": "{incomplete}"}, r"lacks 1 of the encoder's weights \(electra.encoder.layer.0"),
        ({"init_generator": "{trained}", "objective": "mlm"}, "--init_generator has no meaning for --objective mlm"),
        ({"init_generator": "{trained}", "generator_size": 0.5}, "--generator_size 0.5: .*has its own; leave it out"),
    ],
)
def test_what_cannot_be_continued_is_one_line(
    trained: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_corpus(other / "corpus.txt", seed=7)
    for name in ("damaged", "incomplete"):
        (tmp_path / name).mkdir()
        for path in (trained / "discriminator").iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"nothing")
    shallow = json.loads((tmp_path / "damaged" / "config.json").read_text())
    (tmp_path / "shallow").mkdir()
    for path in (trained / "discriminator").iterdir():
        (tmp_path / "shallow" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "shallow" / "config.json").write_text(json.dumps({**shallow, "num_hidden_layers": 1}))
    kept = weights(trained / "discriminator")
    kept.pop("electra.encoder.layer.0.output.dense.weight")
    save_file(kept, tmp_path / "incomplete" / "model.safetensors", metadata={"format": "pt"})
    if "tokenizer_path" in options:
        main(flags(other, experiment_name="first", max_steps=1, vocab_size=119, eval_strategy="no"))
    places = {
        "{other}": other / "output" / "first" / "tokenizer",
        "{checkpoint}": trained / "checkpoint-2",
        "{damaged}": tmp_path / "damaged",
        "{incomplete}": tmp_path / "incomplete",
        "{shallow}": tmp_path / "shallow",
        "{trained}": trained,
    }
    values = {name: places.get(value, value) if isinstance(value, str) else value for name, value in options.items()}
    with pytest.raises(UserError, match=message):
        continue_from(
            trained, tmp_path, **{"init_discriminator": trained, "generator_size": None, **NOTHING_LEARNED, **values}
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "mlm", "tie": "word"}, "--tie has no meaning for --objective mlm"),
        ({"objective": "mlm", "generator_type": "bert"}, "--generator_type has no meaning for --objective mlm"),
        ({"objective": "replace_mlm", "tie": "gdes"}, "--tie gdes does not work with --objective replace_mlm"),
        ({"objective": "two_stage", "tie": "word"}, "--tie word does not work with --objective two_stage"),
        ({"generator_num_attention_heads": 0}, "generator_num_attention_heads 0 is not possible"),
        ({"objective": "mlm", "generator_size": 0.5}, "--generator_size has no meaning for --objective mlm"),
        (
            {"generator_type": "uniform", "generator_size": 0.5},
            "--generator_size has no meaning for --gen",
        ),
        ({"generator_type": "uniform", "tie": "word"}, "--tie has no meaning for --gen"),
        ({"discriminator_type": "bert", "embedding_size": 16}, "--embedding_size 16 has no meaning for bert"),
        (
            {"objective": "two_stage", "generator_size": 1.0, "tie_embedding_projection": True},
            "--tie_embedding_projection does not work with --objective two_stage",
        ),
        (
            {"objective": "two_stage", "generator_size": 1.0, "intermediate_size": 128, "max_steps": 1},
            "not enough for two",
        ),
        ({"generator_type": "uniform", "mlm_replacement_probability": 0.5}, "has no meaning for --generator_type uni"),
        (
            {"discriminator_type": "albert", "gradient_checkpointing": True},
            "--gradient_checkpointing does not work with",
        ),
        ({"discriminator_type": "gpt2"}, "invalid choice: 'gpt2'"),
        ({"generator_type": "bert", "generator_size": 1.0}, "--tie embeddings shares the word embeddings"),
    ],
)
def test_networks_that_make_no_sense_are_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_corpus(tmp_path / "corpus.txt")
    with pytest.raises(UserError, match=message):
        main(flags(tmp_path, **options))


def test_another_tying_or_type_is_no_resumption(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    main(flags(tmp_path, experiment_name="run", max_steps=2, save_steps=1))
    resume = f"--resume_from_checkpoint={tmp_path / 'output' / 'run' / 'checkpoint-1'}"
    refused = {"--tie=word": "tie is embeddings there and word here", "--generator_type=albert": "model_type"}
    for flag, named in refused.items():
        with pytest.raises(UserError, match=named):
            main([resume, flag])


@pytest.mark.parametrize(
    "options",
    [
        {"tie": "gdes"},
        {"discriminator_type": "bert", "generator_size": 1.0},
        {"tie": "all", "generator_size": 1.0, "intermediate_size": 128},
        {"objective": "two_stage", "generator_size": 1.0, "intermediate_size": 128},
    ],
)
def test_a_checkpoint_and_an_export_give_fine_tuning_the_same_encoder(tmp_path: Path, options: dict[str, Any]) -> None:
    write_corpus(tmp_path / "corpus.txt")
    main(flags(tmp_path, experiment_name="run", max_steps=4, **options))
    run = tmp_path / "output" / "run"
    exported, saved = load_encoder(str(run)).model, load_encoder(str(run / "checkpoint-4")).model
    expected = exported.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in saved.state_dict().items())
