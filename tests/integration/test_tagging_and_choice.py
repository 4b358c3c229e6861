"""run_tagging.py and run_swag.py on tiny data: scores, files, resuming, saved models, exit codes."""

import csv
import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    pipeline,
)

import run_swag
import run_tagging
from electra.errors import UserError
from electra.report.results import read_results
from electra.tasks.multiple_choice.data import load_splits
from electra.tasks.tagging.columns import read_columns
from electra.tasks.tagging.schemes import convert, score, to_bilou
from tests.finetuning.commands import run, start
from tests.pretraining.runs import WORDS
from tests.tasks.glue.files import write_encoder
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.multiple_choice.files import rows, write_questions
from tests.tasks.tagging.files import flags, write_columns
from tests.tasks.tagging.files import write_encoder as write_wide_encoder

TAGGING = {"learning_rate": 3e-3, "num_train_epochs": 6, "bf16": False, "save_model": "best"}
CHOICE = {"learning_rate": 1e-2, "num_train_epochs": 8, "bf16": False, "save_model": "best"}


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of tagging, two seeds."""
    folder = tmp_path_factory.mktemp("tagging")
    write_wide_encoder(folder / "encoder")
    write_columns(folder / "names")
    run_tagging.main(flags(folder, test_file=folder / "names" / "test.txt", **TAGGING))
    return folder


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    """Finished runs of multiple choice, two seeds."""
    folder = tmp_path_factory.mktemp("choice")
    write_encoder(folder / "encoder", glue_tokenizer)
    write_questions(folder / "quiz")
    run_swag.main(choice_flags(folder, test_file=folder / "quiz" / "test.csv", **CHOICE))
    return folder


@pytest.fixture
def folder(tagged: Path, tmp_path: Path) -> Path:
    """The data and the encoder of tagging, to be changed by a test."""
    shutil.copytree(tagged, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("output"))
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- tagging


def test_tagging_is_learned_and_its_files_agree(tagged: Path) -> None:
    folder = tagged / "output" / "run"
    results = read_results(folder / "results.jsonl")
    assert [(r.task, r.seed, r.start, r.collapsed) for r in results] == [
        ("names", 42, "pretrained", False), ("names", 43, "pretrained", False),
    ]  # fmt: skip
    assert results[0].rows == {"train": 100, "dev": 12, "test": 8}
    assert (results[0].settings["head"], results[0].settings["scheme"]) == ("linear", "auto")
    assert (results[0].metrics["f1"] or 0) > 0.8
    for split, prefix in (("dev", ""), ("test", "test_")):
        path = folder / "predictions" / f"names-42-{split}.txt"
        written, original = read_columns(str(path)), read_columns(str(tagged / "names" / f"{split}.txt"))
        assert written.words == original.words and written.labels is not None and original.labels is not None
        assert read_columns(str(path), 2).labels == original.labels
        counted = score(written.labels, original.labels, "iob1")
        assert {f"{prefix}{name}": value for name, value in counted.items()} == {
            name: value for name, value in results[0].metrics.items() if name.startswith("test_") == bool(prefix)
        }
    best = max(results, key=lambda r: (r.metrics["f1"] or 0, -r.seed)).seed
    best_path = folder / "predictions" / f"names-{best}-test.txt"
    assert (folder / "predictions.txt").read_bytes() == best_path.read_bytes()


def test_what_is_finished_is_kept_and_what_is_lost_is_made_again(tagged: Path, tmp_path: Path) -> None:
    shutil.copytree(tagged / "output", tmp_path / "output")
    folder = tmp_path / "output" / "run"
    argv = flags(tagged, output_dir=tmp_path / "output", test_file=tagged / "names" / "test.txt", **TAGGING)
    before = contents(folder)
    (folder / "predictions" / "names-43-dev.txt").unlink()
    for _ in range(2):
        run_tagging.main(argv)
        after = contents(folder)
        kept = [path for path in before if path.parts[len(folder.parts)] in ("predictions", "results.jsonl")]
        assert len(kept) == 7 and all(after[path] == before[path] for path in kept)
    (tmp_path / "dev.txt").write_text((tagged / "names" / "dev.txt").read_text().replace(WORDS[30], WORDS[70]))
    with pytest.raises(UserError, match=r"validation_data is \w{12} there and \w{12} here"):
        run_tagging.main([*argv, f"--validation_file={tmp_path / 'dev.txt'}"])


def test_a_saved_tagger_is_that_of_the_best_seed(tagged: Path) -> None:
    folder = tagged / "output" / "run"
    best = min(read_results(folder / "results.jsonl"), key=lambda r: (-(r.metrics["f1"] or 0), r.seed)).seed
    check_saved_tagger(tagged, folder, best, tolerance=1e-4)


def check_saved_tagger(data: Path, folder: Path, seed: int, tolerance: float) -> None:
    saved = folder / "models" / "names"
    assert json.loads((saved / "result.json").read_text())["seed"] == seed
    tokenizer = AutoTokenizer.from_pretrained(saved)
    model = AutoModelForTokenClassification.from_pretrained(saved).eval()
    assert list(model.config.id2label.values()) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    words = read_columns(str(data / "names" / "dev.txt")).words[0]  # one token each
    logits = model(**tokenizer(" ".join(words), return_tensors="pt")).logits[0, 1:-1].detach().numpy()
    expected = np.load(folder / "predictions" / f"names-{seed}.npz")["dev"][0, : len(words)]
    assert logits == pytest.approx(expected, abs=tolerance)
    tag = pipeline("token-classification", model=str(saved), aggregation_strategy="first")
    found = tag(" ".join(words))
    assert {entity["entity_group"] for entity in found} <= {"O", "LOC", "PER"} and found


def test_a_step_is_a_mean_over_words_however_it_is_split(folder: Path) -> None:
    logits = []
    for batch, accumulation in ((8, 1), (2, 4)):
        options = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation, "bf16": False}
        name = f"batch-{batch}"
        options |= {"head_dropout": 0, "num_seeds": 1, "experiment_name": name, "learning_rate": 3e-3}
        run_tagging.main(flags(folder, **options))
        logits.append(np.load(folder / "output" / name / "predictions" / "names-42.npz")["dev"])
    assert logits[0] == pytest.approx(logits[1], abs=1e-3)


def test_a_long_sentence_is_predicted_word_by_word(folder: Path) -> None:
    long = "\n".join(line for line in (folder / "names" / "dev.txt").read_text().splitlines() if line)
    (folder / "names" / "long.txt").write_text(long.removeprefix("-DOCSTART- X O\n") + "\n")
    options = {**TAGGING, "save_model": "none", "max_length": 12, "num_seeds": 1}
    run_tagging.main(flags(folder, validation_file=folder / "names" / "long.txt", **options))
    output = folder / "output" / "run"
    assert np.load(output / "predictions" / "names-42.npz")["dev"].shape[0] > 1
    found = read_columns(str(output / "predictions.txt"))
    assert len(found) == 1 and len(found.words[0]) > 50
    (result,) = read_results(output / "results.jsonl")
    assert result.rows["dev"] == 1 and (result.metrics["f1"] or 0) > 0.7


@pytest.mark.parametrize("kind", ["file", "data set"])
def test_a_test_set_without_labels_is_predicted(folder: Path, kind: str) -> None:
    test = folder / "names" / "test.txt"
    options: dict = {"test_file": test, "num_seeds": 1}
    found = read_columns(str(test))
    if kind == "file":
        lines = ["\n".join(words) + "\n" for words in found.words]
        test.write_text("\n".join(lines))
    else:
        (folder / "set").mkdir()
        for split, name in (("train", "train"), ("dev", "validation"), ("test", "test")):
            sentences = read_columns(str(folder / "names" / f"{split}.txt"))
            pairs = zip(sentences.words, sentences.labels or [], strict=True)
            lines = [json.dumps({"tokens": w, "tags": [None] * len(w) if split == "test" else t}) for w, t in pairs]
            (folder / "set" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        options = {"train_file": None, "validation_file": None, "dataset_name": folder / "set", "num_seeds": 1}
    run_tagging.main(flags(folder, **options))
    output = folder / "output" / "run"
    assert not any(name.startswith("test") for name in read_results(output / "results.jsonl")[0].metrics)
    assert read_columns(str(output / "predictions.txt")).words == found.words


def test_predictions_have_the_notation_of_the_file(folder: Path) -> None:
    for split in ("train", "dev"):
        path = folder / "names" / f"{split}.txt"
        found = read_columns(str(path)).labels or []
        labels = iter(label for sentence in found for label in to_bilou(convert(sentence, "bioes")))
        lines = path.read_text().splitlines()[2:]
        path.write_text("".join(f"{line.rsplit(' ', 1)[0]} {next(labels)}\n" if line else "\n" for line in lines))
    run_tagging.main(flags(folder, num_seeds=1, **{**TAGGING, "save_model": "none"}))
    predicted = read_columns(str(folder / "output" / "run" / "predictions.txt")).labels or []
    prefixes = {label[:2] for sentence in predicted for label in sentence}
    assert prefixes & {"L-", "U-"} and not prefixes & {"E-", "S-"}


def test_parts_of_speech_are_scored_by_accuracy(folder: Path) -> None:
    for split in ("train", "dev"):
        path = folder / "names" / f"{split}.txt"
        path.write_text(path.read_text().replace(" I-PER", " N").replace(" I-LOC", " M"))
    run_tagging.main(flags(folder, num_seeds=1, learning_rate=3e-3, num_train_epochs=4))
    (result,) = read_results(folder / "output" / "run" / "results.jsonl")
    assert set(result.metrics) == {"accuracy"} and (result.metrics["accuracy"] or 0) > 0.8


def test_from_scratch_seeds_differ_in_the_whole_network(folder: Path) -> None:
    options = {"pretrain_path": None, "from_scratch": folder / "encoder", "learning_rate": 1e-9}
    run_tagging.main(flags(folder, **options, experiment_name=None))
    output = folder / "output" / "tagging_encoder_scratch"
    first, second = (np.load(output / "predictions" / f"names-{seed}.npz")["dev"] for seed in (42, 43))
    assert np.abs(first - second).max() > 1e-2


# ---- multiple choice


def test_multiple_choice_is_learned_and_its_files_agree(answered: Path) -> None:
    folder = answered / "output" / "run"
    results = read_results(folder / "results.jsonl")
    assert [(r.task, r.seed, r.collapsed) for r in results] == [("quiz", 42, False), ("quiz", 43, False)]
    assert results[0].rows == {"train": 80, "dev": 20, "test": 10}
    assert (results[0].metrics["accuracy"] or 0) > 0.8
    with open(folder / "predictions" / "quiz-42-dev.csv", newline="") as file:
        predicted = list(csv.DictReader(file))
    assert [row["row"] for row in predicted] == [f"{answered}/quiz/dev.csv row {n}" for n in range(1, 21)]
    correct = sum(row["prediction"] == row["answer"] for row in predicted)
    assert correct / 20 == pytest.approx(results[0].metrics["accuracy"])
    for row, cells in zip(predicted, rows(20, 1), strict=True):
        shares = [float(share) for share in row["probabilities"].split()]
        assert len(shares) == sum(map(bool, cells[1:5])) and sum(shares) == pytest.approx(1, abs=1e-3)
        assert cells["ABCD".index(row["prediction"]) + 1] == row["choice"]
    best = max(results, key=lambda r: (r.metrics["accuracy"] or 0, -r.seed)).seed
    best_path = folder / "predictions" / f"quiz-{best}-test.csv"
    assert (folder / "predictions.csv").read_bytes() == best_path.read_bytes()


def test_a_saved_choice_model_has_the_logits_of_the_best_seed(answered: Path) -> None:
    folder = answered / "output" / "run"
    best = min(read_results(folder / "results.jsonl"), key=lambda r: (-(r.metrics["accuracy"] or 0), r.seed)).seed
    tokenizer = AutoTokenizer.from_pretrained(folder / "models" / "quiz")
    model = AutoModelForMultipleChoice.from_pretrained(folder / "models" / "quiz").eval()
    expected = np.load(folder / "predictions" / f"quiz-{best}.npz")["dev"]
    question = load_splits({"dev": [str(answered / "quiz" / "dev.csv")]}, None, None)["dev"][0]
    texts = [question.first] * len(question.seconds), question.seconds
    inputs = tokenizer(*texts, padding=True, return_tensors="pt")
    logits = model(**{name: values[None] for name, values in inputs.items()}).logits
    assert logits.detach().numpy()[0] == pytest.approx(expected[0, : len(question.seconds)], abs=1e-4)


def test_a_test_file_without_answers_is_predicted_row_by_row(answered: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps({"question": c[0], "choices": c[1:3]}) + "\n" for c in rows(7, 3)))
    run_swag.main(choice_flags(answered, output_dir=tmp_path / "output", test_file=path, num_seeds=1))
    output = tmp_path / "output" / "run"
    assert set(read_results(output / "results.jsonl")[0].metrics) == {"accuracy"}
    with open(output / "predictions.csv", newline="") as file:
        predicted = list(csv.DictReader(file))
    assert len(predicted) == 7 and {row["answer"] for row in predicted} == {""}


# ---- both, in processes of their own

KINDS = [
    ("run_tagging.py", lambda folder: write_columns(folder / "names"), flags, {"save_model": "best"}),
    ("run_swag.py", lambda folder: write_questions(folder / "quiz"), choice_flags, {"save_model": "all"}),
]  # fmt: skip


@pytest.mark.parametrize(("script", "write", "flags_of", "options"), KINDS, ids=["tags", "choice"])
def test_killed_and_started_again_it_ends_in_the_same_files(
    tmp_path: Path,
    glue_tokenizer: PreTrainedTokenizerBase,
    script: str,
    write: Callable,
    flags_of: Callable,
    options: dict,
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write(tmp_path)
    options = {**options, "num_train_epochs": 15, "num_seeds": 3}
    run(script, flags_of(tmp_path, **options, experiment_name="undisturbed"), tmp_path)

    argv = flags_of(tmp_path, **options, experiment_name="killed")
    killed = start(script, argv, tmp_path)
    results = tmp_path / "output" / "killed" / "results.jsonl"
    while not (results.is_file() and results.read_bytes()):
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    finished = len(results.read_bytes().splitlines())
    assert finished in (1, 2)

    out, _ = run(script, argv, tmp_path)
    assert f"{3 - finished} runs, {finished} more" in out
    one, other = tmp_path / "output" / "undisturbed", results.parent
    for path in one.rglob("*.*"):
        name = path.relative_to(one)
        is_output = name.parts[0].startswith(("predictions", "models")) and name.suffix != ".md"
        if name.name == "results.jsonl" or is_output:
            assert path.read_bytes() == (other / name).read_bytes(), name


@pytest.mark.parametrize(
    ("script", "write", "flags_of", "file", "line"),
    [
        ("run_tagging.py", lambda folder: write_columns(folder / "names"), flags, "names/dev.txt", "a b\n"),
        ("run_swag.py", lambda folder: write_questions(folder / "quiz"), choice_flags, "quiz/dev.csv", "a,b\n"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(
    tmp_path: Path,
    glue_tokenizer: PreTrainedTokenizerBase,
    script: str,
    write: Callable,
    flags_of: Callable,
    file: str,
    line: str,
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write(tmp_path)
    with open(tmp_path / file, "a") as opened:
        opened.write(line)
    out, err = run(script, flags_of(tmp_path), tmp_path, expect=2)
    assert err.count("\n") == 1 and file in err and "Traceback" not in out + err
