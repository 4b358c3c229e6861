"""The command itself, in this process, on a tiny SQuAD that can be learned: what it writes, repeats, refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

import run_squad
from electra.errors import UserError
from electra.finetuning.protocol.evaluation import open_evaluation
from electra.finetuning.protocol.settings import hyperparameters
from electra.finetuning.protocol.setup import open_encoder
from electra.finetuning.results import Result, read_results
from electra.squad import metrics, report
from electra.squad.data import read_questions
from electra.squad.decoding import Answer, Decoded
from electra.squad.family import Squad
from electra.squad.options import parse_arguments
from tests.finetuning.commands import file_flags
from tests.glue.files import write_encoder
from tests.pretraining.runs import WORDS
from tests.squad.files import ANSWERS, flags, write_squad

LEARN = {"learning_rate": 2e-2, "layerwise_lr_decay": 1.0, "num_train_epochs": 12}


@pytest.fixture
def folder(tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    write_encoder(tmp_path / "encoder", glue_tokenizer, dropout=0.0)
    return tmp_path


def results_of(folder: Path, name: str = "run") -> list[Result]:
    return read_results(folder / "output" / name / "results.jsonl")


def read(folder: Path, file: str, task: str, seed: int = 42) -> Any:
    return json.loads((folder / "output" / "run" / "predictions" / f"{task}-{seed}" / f"{file}.json").read_text())


def official(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, float]:
    capsys.readouterr()
    metrics.main([str(word) for word in words])
    found: dict[str, float] = json.loads(capsys.readouterr().out)
    return found


def test_version_1_from_json_to_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_squad(folder / "squad")
    run_squad.main(flags(folder, **LEARN))
    first, second = results_of(folder)
    assert (first.task, first.seed, second.seed, first.collapsed) == ("squad_v1", 42, 43, False)
    assert first.rows == {"train": 40, "dev": 20}  # questions, not windows
    assert first.metrics["f1"] is not None and first.metrics["f1"] > 0.9  # it is easy, if the positions are right
    expected = {"head": "joint", "max_length": 32, "doc_stride": 128, "max_query_length": 64, "head_dropout": 0.0}
    assert {name: first.settings[name] for name in expected} == expected

    dev = folder / "squad" / "dev.json"
    said = read(folder, "predictions", "squad_v1")
    assert set(said) == set(read_questions(dev).references)
    assert set(said.values()) & {ANSWERS[0], " ".join(ANSWERS)}
    saved = folder / "output" / "run" / "predictions" / "squad_v1-42"
    printed = official(capsys, dev, saved / "predictions.json")
    assert printed == read(folder, "metrics", "squad_v1")
    assert first.metrics == {name: value / 100 for name, value in printed.items()}
    best = read(folder, "nbest_predictions", "squad_v1")
    assert {name: answers[0]["text"] for name, answers in best.items()} == said
    assert all(
        1 <= len(answers) <= 20 and len({a["text"] for a in answers}) == len(answers) for answers in best.values()
    )
    assert not (saved / "null_odds.json").exists()


@pytest.mark.parametrize("head", ["joint", "independent"])
def test_version_2_from_json_to_scores(folder: Path, capsys: pytest.CaptureFixture[str], head: str) -> None:
    write_squad(folder / "squad", version_2=True)
    run_squad.main(flags(folder, head=head, num_seeds=1, **LEARN))
    (result,) = results_of(folder)
    assert result.task == "squad_v2" and not result.collapsed
    assert set(result.metrics) == {"exact_match", "f1", "HasAns_exact", "HasAns_f1", "NoAns_exact"}
    saved = folder / "output" / "run" / "predictions" / "squad_v2-42"
    files = (folder / "squad" / "dev.json", saved / "predictions.json", "--null_odds", saved / "null_odds.json")
    plain = official(capsys, *files)
    best = official(capsys, *files, "--threshold", plain["best_f1_thresh"])
    assert best == read(folder, "metrics", "squad_v2") and best["f1"] == best["best_f1"] == plain["best_f1"]
    named = {"exact_match": "best_exact", "f1": "best_f1"}
    assert result.metrics == {name: best[named.get(name, name)] / 100 for name in result.metrics}
    assert result.metrics["f1"] is not None and result.metrics["f1"] > 0.9
    assert best["HasAns_total"] == best["NoAns_total"] == 10 and best["NoAns_f1"] > 80


def test_paragraphs_longer_than_the_model_are_read_in_windows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_squad(folder / "squad", words=50)
    run_squad.main(flags(folder, num_seeds=1, doc_stride=10, **LEARN))
    said = capsys.readouterr().out
    windows = [int(line.split()[-2]) for line in said.splitlines() if line.endswith(" windows")]
    assert windows[0] > 80 and windows[1] > 40
    (result,) = results_of(folder)
    assert result.rows == {"train": 40, "dev": 20}
    assert result.metrics["f1"] is not None and result.metrics["f1"] > 0.8


def test_the_same_command_repeats_nothing_and_more_seeds_are_added(folder: Path) -> None:
    write_squad(folder / "squad")
    run_squad.main(flags(folder, num_seeds=1))
    run = folder / "output" / "run"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    run_squad.main(flags(folder, num_seeds=1))
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    run_squad.main(flags(folder, num_seeds=2))
    run_squad.main(flags(folder, num_seeds=2, experiment_name="at_once"))
    assert results_of(folder) == results_of(folder, "at_once")
    assert (run / "results.jsonl").read_bytes().startswith(before[run / "results.jsonl"])
    with pytest.raises(UserError, match=r"other settings: doc_stride is 128 there and 64 here"):
        run_squad.main(flags(folder, doc_stride=64))


def test_other_data_in_files_of_the_same_names_is_not_in_the_same_folder(folder: Path) -> None:
    write_squad(folder / "squad")
    run_squad.main(flags(folder, num_seeds=1))
    for name in ("train", "dev"):
        path = folder / "squad" / f"{name}.json"
        before = path.read_text()
        path.write_text(before.replace(ANSWERS[0], WORDS[70]))
        option = {"train": "train_data", "dev": "validation_data"}[name]
        with pytest.raises(UserError, match=rf"other settings: {option} is \w{{12}} there and \w{{12}} here"):
            run_squad.main(flags(folder, num_seeds=1))
        path.write_text(before)
    (folder / "squad").rename(folder / "moved")
    run_squad.main(file_flags(folder, "moved/train.json", "moved/dev.json", num_seeds=1))


def test_predictions_that_were_lost_are_made_again(folder: Path) -> None:
    write_squad(folder / "squad", version_2=True)
    run_squad.main(flags(folder, num_seeds=1))
    kept = folder / "output" / "run" / "predictions" / "squad_v2-42"
    before = {path: path.read_bytes() for path in kept.iterdir()}
    assert len(before) == 4
    for path in before:
        path.unlink()
        run_squad.main(flags(folder, num_seeds=1))
        assert {path: path.read_bytes() for path in kept.iterdir()} == before


def family(folder: Path, *options: str) -> Squad:
    args = parse_arguments([*flags(folder), *options])
    return Squad(args, open_encoder(args), open_evaluation(args, "squad"))


def test_where_answering_nothing_is_best_nothing_is_answered(folder: Path) -> None:
    write_squad(folder / "squad", version_2=True)
    squad = family(folder)
    references = squad.questions["dev"].references
    wrong = {name: [Answer("nowhere", 1.0, 1.0)] for name in references}
    odds = {name: -5.0 - number for number, name in enumerate(references)}
    found = squad.official_metrics(Decoded(wrong, odds))
    assert (found["best_f1"], found["best_f1_thresh"]) == (50.0, 0.0)  # as the official script says
    assert (found["f1"], found["NoAns_f1"], found["HasAns_f1"]) == (50.0, 100.0, 0.0)
    right = {name: [Answer(answers[0] if answers else "x", 1.0, 1.0)] for name, answers in references.items()}
    some = Decoded(right, {name: -1.0 if answers else 3.0 for name, answers in references.items()})
    assert squad.threshold(some) == -1.0 and squad.official_metrics(some)["f1"] == 100.0


def test_a_run_that_answers_nothing_at_its_threshold_is_collapsed(folder: Path) -> None:
    write_squad(folder / "squad", version_2=True)
    squad = family(folder, "--head=joint", "--beam_size=1")
    squad.load(["squad_v2"], {"squad_v2": hyperparameters(squad.args, "squad_v2", squad.encoder)})
    assert squad.dev is not None
    windows = squad.dev.windows
    starts = windows.context[:, 0] + np.arange(len(windows)) % 3  # all over the paragraph
    has_answer = np.array([bool(question.answers) for question in squad.questions["dev"].questions])
    odds = np.where(has_answer[windows.questions], -5, -9)  # the wrong way round, so that no answer is worth it
    zeros = np.zeros(len(windows))
    rows = np.stack([odds, zeros, starts, zeros, starts], axis=1).astype(np.float32)
    found = squad.official_metrics(squad.decode(rows))
    assert found["best_f1"] == 50.0 and squad.is_collapsed("squad_v2", {"dev": rows})


@pytest.mark.parametrize("version_2", [False, True])
def test_training_data_without_any_answer_in_its_place_is_refused(folder: Path, version_2: bool) -> None:
    path = write_squad(folder / "squad", version_2=version_2) / "train.json"
    content = json.loads(path.read_text())
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for answer in [answer for qa in paragraph["qas"] for answer in qa["answers"]]:
                answer["text"] = "nowhere"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"train\.json: not one answer stands where it says"):
        run_squad.main(flags(folder, num_seeds=1))


def test_the_report_has_both_scores_and_published_rows_beside_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_squad(folder / "squad")
    run_squad.main(flags(folder))
    run = folder / "output" / "run"
    said = capsys.readouterr().out
    assert "SQuAD 1.1 EM" in said and "SQuAD 1.1 F1" in said and str(run / "report.html") in said
    text = (run / "report.md").read_text()
    assert "train 40, officially 87599" in text and "dev 20, officially 10570" in text
    assert "| ELECTRA-Base " in text and "84.5" in text and "90.8" in text and "SQuAD 2.0 |" not in text
    before = text
    report.main([str(run)])
    assert (run / "report.md").read_text() == before
    values = json.loads((run / "report.json").read_text())
    rows = {(row["name"], row["task"]): row["scores"] for row in values["published"]}
    assert rows["ELECTRA-Large, 1.75M steps", "squad_v2"] == {"exact_match": 88.0, "f1": 90.6}
    assert rows["BERT-Base", "squad_v1"] == {"exact_match": 80.8, "f1": 88.5}
    assert rows["ELECTRA-Small++", "squad_v2"] == {"exact_match": 70.1} and ("BERT-Base", "squad_v2") not in rows


def test_answers_that_cannot_be_found_are_left_out_and_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_squad(folder / "squad") / "train.json"
    content = json.loads(path.read_text())
    questions = [qa for article in content["data"] for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    questions[0]["answers"][0]["text"] = "nowhere"
    questions[1]["answers"][0]["answer_start"] += 1
    path.write_text(json.dumps(content))
    run_squad.main(flags(folder, num_seeds=1))
    said = capsys.readouterr().out
    assert "train.json: 2 answers do not stand where it says: 1 found nearby, 1 questions left out" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pretrain_path": None}, "either --pretrain_path.*or --from_scratch.*got neither"),
        ({"train_file": None}, "--validation_file needs --train_file beside it"),
        ({"validation_file": None}, "--train_file needs --validation_file beside it"),
        ({"dataset_name": "squad_v2"}, "--dataset_name and --train_file both name the data"),
        ({"train_file": "nowhere.json"}, r"cannot read nowhere.json: No such file"),
        ({"train_file": None, "validation_file": None}, "--dataset_name squad could not be loaded"),
        ({"train_file": "~nosuchuser/x.json"}, "cannot read ~nosuchuser/x.json: No such file"),
        ({"pretrain_path": "~nosuchuser/x"}, "there is no folder '~nosuchuser/x'"),
        ({"pretrain_path": None, "from_scratch": "~nosuchuser/x"}, "there is no folder '~nosuchuser/x'"),
        ({"tokenizer_path": "~nosuchuser/x"}, "tokenizer ~nosuchuser/x: no such file or folder"),
        ({"max_length": 64}, "--max_length 64 is more than the 32 positions"),
        ({"max_length": 12}, r"--max_length 12 leaves \d tokens for the paragraph beside a question of \d"),
        ({"head": "google"}, "--head.*invalid choice: 'google'"),
        ({"doc_stride": 0}, "--doc_stride 0 is not possible: it must be positive"),
        ({"max_answer_length": -3}, "--max_answer_length -3 is not possible"),
        ({"experiment_name": "a/b"}, "must be a plain folder name"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(folder: Path, options: dict, message: str) -> None:
    write_squad(folder / "squad")
    with pytest.raises(UserError, match=message) as error:
        run_squad.main(flags(folder, **options))
    assert "\n" not in str(error.value)
    assert not list((folder / "output").glob("[!.]*"))
