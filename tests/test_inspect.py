"""The command's probabilities are the exported model's; a run, its checkpoint and its folders are all opened."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForPreTraining, AutoTokenizer

from electra.errors import UserError
from electra.inspect import inspect_texts, load_networks, main
from run_pretraining import main as pretrain
from tests.pretraining.runs import flags, write_corpus

TEXT = "bab dadad kok mum"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    write_corpus(folder / "corpus.txt")
    pretrain(flags(folder, max_steps=3, save_steps=3, eval_strategy="no"))
    return folder / "output" / "run"


def test_a_discriminator_alone_gives_the_probabilities_of_plain_transformers(run: Path) -> None:
    networks = load_networks(str(run / "discriminator"))
    assert networks.generator is None
    (sample,) = inspect_texts(networks, [TEXT])
    model = AutoModelForPreTraining.from_pretrained(run / "discriminator")
    encoded = AutoTokenizer.from_pretrained(run / "discriminator")(TEXT, return_tensors="pt")
    with torch.no_grad():
        expected = model(**encoded).logits.sigmoid()[0].tolist()
    assert sample.probabilities == pytest.approx(expected, abs=2e-6)
    assert sample.shown == sample.original and "".join(sample.original) == f" [CLS] {TEXT} [SEP]"


def test_a_run_and_its_checkpoint_show_the_same_pair_and_a_seed_its_replacements(run: Path) -> None:
    (of_run,) = inspect_texts(load_networks(str(run)), [TEXT], seed=3, mlm_probability=0.5)
    joint = load_networks(str(run / "checkpoint-3"))
    assert joint.joint is not None and joint.generator is not None
    (of_checkpoint,) = inspect_texts(joint, [TEXT], seed=3, mlm_probability=0.5)
    assert of_run.masked == of_checkpoint.masked and of_run.shown == of_checkpoint.shown != of_run.original
    assert of_run.probabilities == pytest.approx(of_checkpoint.probabilities, abs=2e-6)
    (other,) = inspect_texts(joint, [TEXT], seed=4, mlm_probability=0.5)
    assert other.masked != of_run.masked


def test_a_generator_is_named_beside_a_discriminator(run: Path) -> None:
    named = load_networks(str(run / "discriminator"), str(run / "generator"))
    (one,) = inspect_texts(named, [TEXT], mlm_probability=0.5)
    (other,) = inspect_texts(load_networks(str(run)), [TEXT], mlm_probability=0.5)
    assert one == other and one.masked is not None


def test_the_command_prints_no_colours_where_there_is_no_terminal(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(run), TEXT, "kok"])
    printed = capsys.readouterr().out
    assert printed.count("P(replaced)") == 2 and "\033" not in printed
    assert "ba·b" in printed and printed.replace("·", "").count(f"[CLS] {TEXT} [SEP]") == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["{run}/nothing", "a"], "nothing"),
        (["{run}", ""], "no tokens"),
        (["{run}", "bab " * 200], "32"),
        (["{run}", "a", "--mlm_probability", "1.5"], "--mlm_probability 1.5"),
        (["{run}", "a", "--seed", "-1"], "--seed -1"),
        (["{run}", "a", "--generator", "{run}/discriminator"], "discriminator"),
        (["{run}/tokenizer", "a"], "tokenizer"),
        (["{run}", "a", "b\udcff"], r"b\\udcff"),
    ],
)
def test_bad_requests_are_refused(run: Path, argv: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        main([word.format(run=run) for word in argv])


def test_weights_that_are_cut_short_or_of_another_size_are_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run / "discriminator", tmp_path / "cut")
    (folder / "manifest.json").unlink()
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    with pytest.raises(UserError, match="weights cannot be loaded") as raised:
        load_networks(str(folder))
    assert "\n" not in str(raised.value)
    weights.write_bytes(whole)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 48}))
    with pytest.raises(UserError, match=r"\(64, .*\(48, "):
        load_networks(str(folder))
