"""The command itself, in this process, on a tiny corpus: what it writes, what it repeats, what it refuses."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import run_tagging
from electra.errors import UserError
from electra.finetuning.results import read_results
from electra.tagging.columns import read_columns
from electra.tagging.metrics import score
from electra.tagging.schemes import convert, to_bilou
from tests.pretraining.runs import WORDS
from tests.tagging.files import flags, write_columns, write_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_encoder(tmp_path / "encoder")
    write_columns(tmp_path / "names")
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_whole_run_learns_and_its_files_agree_with_each_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"test_file": folder / "names" / "test.txt", "learning_rate": 3e-3, "num_train_epochs": 6}
    run_tagging.main(flags(folder, **options))
    assert "labels         iob1, 5 of them: O B-LOC I-LOC B-PER I-PER" in capsys.readouterr().out
    run = folder / "output" / "run"
    results = read_results(run / "results.jsonl")
    assert [(r.task, r.seed, r.start, r.collapsed) for r in results] == [
        ("names", 42, "pretrained", False), ("names", 43, "pretrained", False),
    ]  # fmt: skip
    assert results[0].rows == {"train": 100, "dev": 12, "test": 8}
    assert results[0].settings["head"] == "linear" and results[0].settings["scheme"] == "auto"
    assert results[0].metrics["f1"] is not None and results[0].metrics["f1"] > 0.8
    for split, prefix in (("dev", ""), ("test", "test_")):
        written = read_columns(str(run / "predictions" / f"names-42-{split}.txt"))
        original = read_columns(str(folder / "names" / f"{split}.txt"))
        assert written.words == original.words and written.labels is not None and original.labels is not None
        assert read_columns(str(run / "predictions" / f"names-42-{split}.txt"), 2).labels == original.labels
        counted = score(written.labels, original.labels, "iob1")
        assert {f"{prefix}{name}": value for name, value in counted.items()} == {
            name: value for name, value in results[0].metrics.items() if name.startswith("test_") == bool(prefix)
        }
    best = max(results, key=lambda r: (r.metrics["f1"] or 0, -r.seed)).seed
    chosen = (run / "predictions.txt").read_bytes()
    assert chosen == (run / "predictions" / f"names-{best}-test.txt").read_bytes()
    report = json.loads((run / "report.json").read_text())
    assert set(report["runs"][0]["tasks"]["names"]["metrics"]) == set(results[0].metrics)
    assert "f1\\_LOC" in (run / "report.md").read_text()

    before = contents(run)
    run_tagging.main(flags(folder, **options))
    assert contents(run) == before
    (run / "predictions" / "names-43-dev.txt").unlink()
    run_tagging.main(flags(folder, **options))  # what was lost is made again
    assert contents(run) == before


def test_a_step_is_a_mean_over_words_however_it_is_split(folder: Path) -> None:
    logits = []
    for batch, accumulation in ((8, 1), (2, 4)):
        options = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation, "bf16": False}
        name = f"batch-{batch}"
        run_tagging.main(
            flags(folder, **options, head_dropout=0, num_seeds=1, experiment_name=name, learning_rate=3e-3)
        )
        logits.append(np.load(folder / "output" / name / "predictions" / "names-42.npz")["dev"])
    assert logits[0] == pytest.approx(logits[1], abs=1e-3)


def test_long_sentences_are_predicted_word_by_word(folder: Path) -> None:
    long = "\n".join(line for line in (folder / "names" / "dev.txt").read_text().splitlines() if line)
    (folder / "names" / "long.txt").write_text(long.removeprefix("-DOCSTART- X O\n") + "\n")
    run_tagging.main(
        flags(folder, validation_file=folder / "names" / "long.txt", max_length=12, num_seeds=1, learning_rate=3e-3,
              num_train_epochs=6)
    )  # fmt: skip
    run = folder / "output" / "run"
    assert np.load(run / "predictions" / "names-42.npz")["dev"].shape[0] > 1
    found = read_columns(str(run / "predictions.txt"))
    assert len(found) == 1 and len(found.words[0]) > 50
    (result,) = read_results(run / "results.jsonl")
    assert result.rows["dev"] == 1 and (result.metrics["f1"] or 0) > 0.7


def test_a_test_file_without_labels_is_predicted(folder: Path) -> None:
    words = [line.split(" ")[0] for line in (folder / "names" / "test.txt").read_text().splitlines()]
    (folder / "names" / "test.txt").write_text("\n".join(words) + "\n")
    run_tagging.main(flags(folder, test_file=folder / "names" / "test.txt", num_seeds=1))
    run = folder / "output" / "run"
    assert not any(name.startswith("test") for name in read_results(run / "results.jsonl")[0].metrics)
    assert [line.split(" ")[0] for line in (run / "predictions.txt").read_text().splitlines()] == words[:-1]
    assert "test" in np.load(run / "predictions" / "names-42.npz").files


def test_a_data_set_whose_test_labels_are_hidden_is_predicted(folder: Path) -> None:
    for split, name in (("train", "train"), ("dev", "validation"), ("test", "test")):
        found = read_columns(str(folder / "names" / f"{split}.txt"))
        rows = zip(found.words, found.labels or [], strict=True)
        hidden = split == "test"
        text = [json.dumps({"tokens": w, "tags": [None] * len(w) if hidden else tags}) + "\n" for w, tags in rows]
        (folder / "set").mkdir(exist_ok=True)
        (folder / "set" / f"{name}.jsonl").write_text("".join(text))
    options = {"train_file": None, "validation_file": None, "dataset_name": folder / "set", "num_seeds": 1}
    run_tagging.main(flags(folder, **options))
    run = folder / "output" / "run"
    assert not any(name.startswith("test") for name in read_results(run / "results.jsonl")[0].metrics)
    assert read_columns(str(run / "predictions.txt")).words == found.words
    before = contents(run)
    run_tagging.main(flags(folder, **options))
    assert contents(run) == before


def test_predictions_are_written_in_the_notation_of_the_file(folder: Path) -> None:
    for split in ("train", "dev"):
        path = folder / "names" / f"{split}.txt"
        found = read_columns(str(path)).labels or []
        labels = iter(label for sentence in found for label in to_bilou(convert(sentence, "bioes")))
        lines = path.read_text().splitlines()[2:]
        path.write_text("".join(f"{line.rsplit(' ', 1)[0]} {next(labels)}\n" if line else "\n" for line in lines))
    run_tagging.main(flags(folder, num_seeds=1, learning_rate=3e-3, num_train_epochs=6))
    said = {label[:2] for sentence in read_columns(str(folder / "output/run/predictions.txt")).labels or []
            for label in sentence}  # fmt: skip
    assert said & {"L-", "U-"} and not said & {"E-", "S-"}


def test_parts_of_speech_are_scored_by_accuracy(folder: Path) -> None:
    for split in ("train", "dev"):
        path = folder / "names" / f"{split}.txt"
        path.write_text(path.read_text().replace(" I-PER", " N").replace(" I-LOC", " M"))
    run_tagging.main(flags(folder, num_seeds=1, learning_rate=3e-3, num_train_epochs=4))
    (result,) = read_results(folder / "output" / "run" / "results.jsonl")
    assert set(result.metrics) == {"accuracy"} and (result.metrics["accuracy"] or 0) > 0.8


@pytest.mark.parametrize(
    ("layers", "head", "least"), [("weighted_sum", "bilstm", 0.7), ("last", "linear", 0.7), ("sum_all", "linear", 0.7)]
)
def test_frozen_features_train_a_head_and_no_encoder(folder: Path, layers: str, head: str, least: float) -> None:
    before = hashlib.sha256((folder / "encoder" / "model.safetensors").read_bytes()).digest()
    options = {"frozen_features": True, "feature_layers": layers, "feature_head": head, "feature_lstm_size": 16}
    run_tagging.main(flags(folder, **options, learning_rate=2e-2, num_train_epochs=8, num_seeds=1, select="best"))
    (result,) = read_results(folder / "output" / "run" / "results.jsonl")
    assert (result.metrics["f1"] or 0) > least
    assert (result.settings["head"], result.settings["feature_layers"]) == (head, layers)
    assert result.settings["layerwise_lr_decay"] == 1.0
    assert hashlib.sha256((folder / "encoder" / "model.safetensors").read_bytes()).digest() == before


def test_frozen_layers_that_are_not_there_are_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="concat_last_4 needs 4 layers, the encoder has 1"):
        run_tagging.main(flags(folder, frozen_features=True))


def test_from_scratch_seeds_differ_in_the_whole_network(folder: Path) -> None:
    run_tagging.main(
        flags(folder, pretrain_path=None, from_scratch=folder / "encoder", learning_rate=1e-9, experiment_name=None)
    )
    run = folder / "output" / "names_encoder_scratch"
    first, second = (np.load(run / "predictions" / f"names-{seed}.npz")["dev"] for seed in (42, 43))
    assert np.abs(first - second).max() > 1e-2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_file": None}, "--train_file is missing; name --train_file and --validation_file"),
        ({"validation_file": None}, "--validation_file is missing"),
        ({"dataset_name": "some/data"}, "name either --dataset_name or files; got both"),
        ({"train_file": "nowhere.txt"}, "cannot read nowhere.txt"),
        ({"train_file": "~nosuchuser/x.txt"}, "cannot read ~nosuchuser/x.txt"),
        ({"label_column": 5}, r"train\.txt line 3 has 3 columns, so that --label_column 5"),
        ({"label_column": "ner"}, "--label_column ner is no number"),
        ({"feature_head": "linear"}, "--feature_head is of features; add --frozen_features"),
        ({"label_column": 1, "scheme": "iob2"}, "--scheme iob2 is of entities"),
        ({"max_length": 64}, "--max_length 64 is more than the 32 positions"),
        ({"feature_lstm_size": 0, "frozen_features": True}, "--feature_lstm_size 0 is not possible"),
    ],
)
def test_bad_options_are_refused_in_one_line(folder: Path, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        run_tagging.main(flags(folder, **options))
    assert "\n" not in str(error.value) and not list((folder / "output").glob("[!.]*"))


@pytest.mark.parametrize(
    ("split", "old", "new", "message"),
    [
        ("dev", " I-PER", " I-ORG", r"dev\.txt line \d+: the label 'I-ORG' is not .* training data, which has LOC"),
        ("dev", " I-PER", " PER", r"dev\.txt line \d+: the label 'PER' is neither O nor one of B-"),
        ("test", " I-LOC", " I-GPE", r"test\.txt line \d+: the label 'I-GPE' is not in"),
        ("train", " X I-LOC", " I-LOC", r"train\.txt line \d+ has 2 columns and the lines before it 3"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_their_line(folder: Path, split: str, old: str, new: str, message: str) -> None:
    path = folder / "names" / f"{split}.txt"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError, match=message):
        run_tagging.main(flags(folder, test_file=folder / "names" / "test.txt"))


def test_other_features_are_other_settings(folder: Path) -> None:
    options = {"frozen_features": True, "feature_head": "linear", "feature_layers": "last", "num_seeds": 1}
    run_tagging.main(flags(folder, **options))
    with pytest.raises(UserError, match="feature_layers is last there and sum_all here"):
        run_tagging.main(flags(folder, **{**options, "feature_layers": "sum_all"}))
    with pytest.raises(UserError, match="head is linear there and bilstm here"):
        run_tagging.main(flags(folder, **{**options, "feature_head": "bilstm"}))


def test_other_data_in_a_file_of_the_same_name_is_not_in_the_same_folder(folder: Path) -> None:
    run_tagging.main(flags(folder, num_seeds=1))
    path = folder / "names" / "dev.txt"
    path.write_text(path.read_text().replace(WORDS[30], WORDS[70]))
    with pytest.raises(UserError, match=r"other settings: validation_data is \w{12} there and \w{12} here"):
        run_tagging.main(flags(folder, num_seeds=1))
