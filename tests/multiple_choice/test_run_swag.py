"""The command itself, in this process, on a tiny quiz: what it writes, what it repeats, what it refuses."""

import csv
import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

import run_swag
from electra.errors import UserError
from electra.finetuning.results import read_results
from electra.multiple_choice.data import load_splits
from electra.multiple_choice.options import parse_arguments
from tests.glue.files import write_encoder
from tests.multiple_choice.files import flags, rows, write_questions
from tests.pretraining.runs import WORDS


@pytest.fixture
def folder(tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write_questions(tmp_path / "quiz")
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_whole_run_learns_and_its_files_agree_with_each_other(folder: Path) -> None:
    options = {"test_file": folder / "quiz" / "test.csv", "learning_rate": 1e-2, "num_train_epochs": 8}
    run_swag.main(flags(folder, **options))
    run = folder / "output" / "run"
    results = read_results(run / "results.jsonl")
    assert [(r.task, r.seed, r.collapsed) for r in results] == [("quiz", 42, False), ("quiz", 43, False)]
    assert results[0].rows == {"train": 80, "dev": 20, "test": 10}
    assert results[0].metrics["accuracy"] is not None and results[0].metrics["accuracy"] > 0.8
    with open(run / "predictions" / "quiz-42-dev.csv", newline="") as file:
        said = list(csv.DictReader(file))
    assert [row["row"] for row in said] == [f"{folder}/quiz/dev.csv row {n}" for n in range(1, 21)]
    right = sum(row["prediction"] == row["answer"] for row in said)
    assert right / 20 == pytest.approx(results[0].metrics["accuracy"])
    for row, cells in zip(said, rows(20, 1), strict=True):
        shares = [float(share) for share in row["probabilities"].split()]
        assert len(shares) == sum(map(bool, cells[1:5])) and sum(shares) == pytest.approx(1, abs=1e-3)
        assert cells["ABCD".index(row["prediction"]) + 1] == row["choice"]
    best = max(results, key=lambda r: (r.metrics["accuracy"] or 0, -r.seed)).seed
    assert (run / "predictions.csv").read_bytes() == (run / "predictions" / f"quiz-{best}-test.csv").read_bytes()
    before = contents(run)
    run_swag.main(flags(folder, **options))
    assert contents(run) == before
    (run / "predictions" / "quiz-42-test.csv").unlink()
    run_swag.main(flags(folder, **options))
    assert contents(run) == before


def test_a_test_file_without_answers_is_predicted_row_by_row(folder: Path) -> None:
    path = folder / "quiz" / "test.jsonl"
    path.write_text("".join(json.dumps({"question": c[0], "choices": c[1:3]}) + "\n" for c in rows(7, 3)))
    run_swag.main(flags(folder, test_file=path, num_seeds=1))
    run = folder / "output" / "run"
    assert set(read_results(run / "results.jsonl")[0].metrics) == {"accuracy"}
    with open(run / "predictions.csv", newline="") as file:
        said = list(csv.DictReader(file))
    assert len(said) == 7 and {row["answer"] for row in said} == {""}


def test_rows_that_are_no_questions_are_counted_and_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "quiz" / "dev.csv"
    path.write_text(path.read_text() + "Which?,a,b,c,d,E\n")
    run_swag.main(flags(folder, num_seeds=1))
    said = capsys.readouterr().out
    assert "dev.csv: 1 of 21 rows are left out, such as" in said
    assert "dev.csv row 21: the answer 'E' is none of the 4 choices A B C D" in said
    assert "dev            20 questions with 2 to 4 choices" in said


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("dev.csv", "", r"dev\.csv has no rows"),
        ("dev.csv", "Q?,a,b,E\nR?,a,b,A\n", r"dev\.csv row 1: the answer 'E' .* \(1 of 2 rows are no questions\)"),
        ("dev.csv", "Q?,a,b,A\nR?,a,b,c,A\n", r"dev\.csv row 2 has 5 columns and the first row 4"),
        ("dev.csv", "Q?,A\n", r"dev\.csv row 1 has 2 columns"),
        ("dev.csv", 'Q?,"a,b,A\n', r"dev\.csv is no csv file: unexpected end of data"),
        ("dev.csv", "question,A,B,answer\nQ?,a,b\n", r"dev\.csv row 1 has 3 columns and the header 4"),
        ("dev.csv", "question,A,B\nQ?,a,b\n", r"dev\.csv row 1 has no answer, which dev needs"),
        ("dev.jsonl", '{"question": "Q?"\n', r"dev\.jsonl line 1 is no JSON"),
        ("dev.csv", "question,A,a,answer\nQ?,a,b,A\n", r"dev\.csv has two columns a; leave one of them out"),
        ("dev.jsonl", "[" * 200000, r"dev\.jsonl line 1 is no JSON"),
        ("dev.jsonl", '{"question": "Q?", "A": "a", "B": "\\ud800", "answer": "A"}\n', r"row 1: half of a surrogate"),
        ("dev.jsonl", "[1]\n", r"dev\.jsonl line 1 holds a list, expected an object"),
        ("dev.jsonl", '{"question": "Q?", "choices": ["a"], "answer": "A"}\n', r"row 1: 1 choices that are not empty"),
    ],
)
def test_bad_files_are_refused_with_their_row(folder: Path, name: str, text: str, message: str) -> None:
    path = folder / "quiz" / name
    path.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        run_swag.main(flags(folder, validation_file=path))
    assert "\n" not in str(error.value) and not list((folder / "output").glob("[!.]*"))


def test_numbers_count_alike_in_all_files(folder: Path) -> None:
    row = {"question": "Q", "A": "a", "B": "b", "C": "c"}
    for split, answers in (("train", (0, 1)), ("dev", (1, 1))):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps({**row, "answer": a}) + "\n" for a in answers))
    files = {split: [str(folder / f"{split}.jsonl")] for split in ("train", "dev")}
    found = load_splits(files, None, None)
    assert [[q.answer for q in found[split]] for split in files] == [[0, 1], [1, 1]]


def test_rows_end_at_line_ends_alone(folder: Path) -> None:
    path = folder / "odd.csv"
    path.write_text('Q?,a\u2028b,"c\x0bd\ne",A\n')
    (question,) = load_splits({"train": [str(path)]}, None, None)["train"]
    assert question.choices == ["a\u2028b", "c\x0bd\ne"]


def test_a_configuration_is_also_of_the_default_data_set() -> None:
    chosen = parse_arguments(["--pretrain_path=a", "--dataset_config_name=full"]).options
    assert (chosen.dataset_name, chosen.dataset_config_name) == ("allenai/swag", "full")


def test_a_bad_row_of_a_test_file_is_never_left_out(folder: Path) -> None:
    path = folder / "quiz" / "test.csv"
    path.write_text(path.read_text() + "Which?,a,b,c,d,E\n")
    with pytest.raises(UserError, match=r"test\.csv row 11: the answer 'E'"):
        run_swag.main(flags(folder, test_file=path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_file": None}, "--train_file is missing"),
        ({"validation_file": None}, "--validation_file is missing"),
        ({"dataset_name": "allenai/swag"}, "got both"),
        ({"train_file": "nowhere.csv"}, "cannot read nowhere.csv"),
        ({"train_file": None, "validation_file": None}, "the data set allenai/swag could not be loaded"),
        ({"train_file": "~nosuchuser/x.csv"}, "cannot read ~nosuchuser/x.csv: No such file"),
    ],
)
def test_bad_options_are_refused_in_one_line(folder: Path, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_swag.main(flags(folder, **options))


def test_several_files_and_data_sets_in_folders_are_read(folder: Path, tmp_path: Path) -> None:
    quiz = folder / "quiz"
    found = load_splits(
        {"train": [str(quiz / "train.csv"), str(quiz / "test.csv")], "dev": [], "test": []}, None, None
    )
    assert list(found) == ["train"] and len(found["train"]) == 90
    swag = {"sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d", "label": 1}
    (tmp_path / "set").mkdir()
    for split in ("train", "validation"):
        (tmp_path / "set" / f"{split}.jsonl").write_text(json.dumps(swag) + "\n")
    (question,) = load_splits({}, str(tmp_path / "set"), None)["dev"]
    assert (question.first, question.seconds, question.answer) == ("a", ["b c", "b d"], 1)


def test_other_data_in_a_file_of_the_same_name_is_not_in_the_same_folder(folder: Path) -> None:
    run_swag.main(flags(folder, num_seeds=1))
    path = folder / "quiz" / "dev.csv"
    path.write_text(path.read_text().replace(WORDS[30], WORDS[70]))
    with pytest.raises(UserError, match=r"other settings: validation_data is \w{12} there and \w{12} here"):
        run_swag.main(flags(folder, num_seeds=1))
