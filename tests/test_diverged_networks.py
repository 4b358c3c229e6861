"""Networks whose weights are nan, or so large that their answers are nan: each command refuses them in one line."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import ElectraConfig, ElectraForSequenceClassification

from electra.finetuning.predict import main as predict
from electra.pretraining.testset import main as make_test_set
from electra.tasks.detect.task import main as detect
from electra.tasks.minimal_pairs.task import main as pairs
from electra.tools.inspect import main as inspect
from tests.conftest import TEXTS, refused_command
from tests.helpers import parametrize
from tests.tasks.minimal_pairs.networks import PAIRS, write_run

WEIGHTS = {"nan": torch.nan, "huge": 1e30}


def spoil(folder, factor):
    """Multiply all weights of a network's folder."""
    path = folder / "model.safetensors"
    weights = {name: factor * value if value.is_floating_point() else value for name, value in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory, wordpiece_tokenizer, framed_tokenizer):
    """Runs and fine-tuned models, one of each kind for each entry of `WEIGHTS`, and text."""
    path = tmp_path_factory.mktemp("diverged")
    sizes = {"embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = ElectraConfig(vocab_size=len(framed_tokenizer), intermediate_size=16, max_position_embeddings=32, **sizes)
    result = {"task": "w", "seed": 1, "metrics": {}, "collapsed": False, "epoch": 1.0, "start": "pretrained"}
    result |= {"model": "m", "parameters": 5, "rows": {"dev": 4}, "settings": {"max_length": 16}}
    for name, factor in WEIGHTS.items():
        run = write_run(path / name, wordpiece_tokenizer, mlm_probability=0.15)
        model = path / f"model-{name}"
        ElectraForSequenceClassification(config).save_pretrained(model)
        framed_tokenizer.save_pretrained(model)
        (model / "result.json").write_text(json.dumps(result))
        for part in (run / "discriminator", run / "generator", model):
            spoil(part, factor)
    (path / "text.txt").write_text("\n".join(TEXTS))
    (path / "rows.jsonl").write_text("".join(json.dumps({"text": str(number)}) + "\n" for number in range(7, 12)))
    (path / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in PAIRS))
    return path


COMMANDS = {
    "inspect": (inspect, "{run} text"),
    "inspect a discriminator": (inspect, "{run}/discriminator text"),
    "inspect a generator": (inspect, "{run}/generator text"),
    "detect": (detect, "--pretrain_path={run} {folder}/text.txt --output_dir={out}"),
    "testset": (make_test_set, "--pretrain_path={run} --validation_file={folder}/text.txt --max_length=16 "
                "--output_file={out}.safetensors"),
    "pairs": (pairs, "--pretrain_path={run} --data={folder}/pairs.jsonl --output_dir={out} --use_cpu"),
    "predict": (predict, "{folder}/model-{weights} {folder}/rows.jsonl --output_file={out}.jsonl"),
}  # fmt: skip


@parametrize("weights", WEIGHTS)
@parametrize("name", COMMANDS)
def test_a_diverged_network_gives_no_answers(folder, tmp_path, capsys, name, weights):
    main, words = COMMANDS[name]
    places = {"run": folder / weights, "folder": folder, "weights": weights, "out": tmp_path / "out"}
    argv = [word.format(**places) for word in words.split()]
    line = refused_command(main, argv, capsys)
    assert "not finite" in line if weights == "nan" else "answers nan" in line or "the score" in line, line
    assert not [path for path in tmp_path.rglob("*") if path != tmp_path / "out"]
