"""`electra predict`: for every kind of saved model the scored answers; rows in order; what cannot be read."""

import csv
import io
import json
import re
import shutil
import sys
import tracemalloc
from contextlib import redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest
from pytest import approx
from sklearn.metrics import accuracy_score
from transformers import BertConfig, BertForTokenClassification, pipeline

from electra.data.rows import open_table, read_rows
from electra.finetuning import predict as module
from electra.finetuning.predict import RESULT_NAME, AskedColumns, Saved, main, write_rows
from electra.report.results import read_results
from electra.tasks.classify.task import main as classify
from electra.tasks.glue.task import main as glue
from electra.tasks.multiple_choice.task import main as choose
from electra.tasks.squad.task import main as squad
from electra.tasks.tagging.schemes import entities_of
from electra.tasks.tagging.task import main as tag
from electra.tasks.tagging.task import parse_tagging_row
from electra.tasks.tagging.task import predictor as predictor_of_tags
from tests.conftest import refused, refused_command
from tests.data.workbooks import xlsx
from tests.helpers import parametrize, read_json
from tests.tasks.classify.files import flags as text_flags
from tests.tasks.classify.files import write_lines, write_texts
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.glue.files import write_encoder, write_glue
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.multiple_choice.files import write_questions
from tests.tasks.squad.files import flags as squad_flags
from tests.tasks.squad.files import write_squad
from tests.tasks.tagging.files import flags as tag_flags
from tests.tasks.tagging.files import write_columns

OPTIONS = {"num_seeds": 1, "bf16": False, "save_model": True, "learning_rate": 1e-2, "num_train_epochs": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, glue_tokenizer):
    """The data of `write_texts` with an encoder for them."""
    path = write_texts(tmp_path_factory.mktemp("predict"))
    write_encoder(path / "encoder", glue_tokenizer)
    return path


@pytest.fixture(scope="module")
def reviews(folder):
    """The evaluation of a model that is not perfect."""
    options = {**OPTIONS, "pretrain_path": folder / "encoder", "experiment_name": "reviews", "learning_rate": 1e-3}
    classify(text_flags(folder, "reviews", "csv", **options))
    return folder / "output" / "reviews"


def answers_of(model, file, output, *more):
    """Return the rows that `electra predict` writes for a file; values of a csv are text."""
    main([str(model), str(file), "--output_file", str(output), *more])
    if output.suffix == ".csv":
        return list(csv.DictReader(output.open(encoding="utf-8", newline="")))
    return [json.loads(line) for line in output.open(encoding="utf-8")]


def run_card(model):
    """Run the example in the card of a saved model; return what it prints."""
    card = (model / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)[1]
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(re.sub(r'(?<=from_pretrained\(")[^"]*', str(model), code), {})
    return printed.getvalue()


# ---- rows


ANSWER = {"answer": ["a"], "p": 0.5}
"""An answer with a list and a number."""


def written(path):
    """Return the rows of a file as they are written with `ANSWER` behind them."""
    table = open_table(path) if path.suffix in (".csv", ".tsv", ".xlsx") else None
    rows = [*(table.rows if table else read_rows(path))]
    file = io.StringIO(newline="")
    assert write_rows(file, table, [(placed, ANSWER) for placed in rows]) == len(rows)
    return file.getvalue()


@parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"n": 1.10 }\n{}\n', '{"n": 1.1, "answer": ["a"], "p": 0.5}\n{"answer": ["a"], "p": 0.5}\n'),
        ("a.json", '[{"text": "ä"}]', '{"text": "ä", "answer": ["a"], "p": 0.5}\n'),
        ("a.csv", '\ufefftext;n\r\n"ä; ""b""";1,50\r\n', 'text;n;answer;p\n"ä; ""b""";1,50;"[""a""]";0.5\n'),
        ("a.csv", ",text,,\n007,ä,,", ',text,answer,p\n007,ä,"[""a""]",0.5\n'),
        ("a.csv", 'text\n"a\r\nb"\n""\n', 'text,answer,p\n"a\r\nb","[""a""]",0.5\n,"[""a""]",0.5\n'),
        ("a.csv", 'text\n"a\rb"\nc\n', 'text,answer,p\n"a\rb","[""a""]",0.5\nc,"[""a""]",0.5\n'),
        (
            "a.tsv",
            'text\tn\n"ä"\tb "c"\nd\t\n',
            'text\tn\tanswer\tp\n"""ä"""\t"b ""c"""\t"[""a""]"\t0.5\nd\t\t"[""a""]"\t0.5\n',
        ),
        ("a.tsv", '"text"\n"ä"\n', 'text\tanswer\tp\nä\t"[""a""]"\t0.5\n'),
        ("a.tsv", 'text\tn\n"ä\n"\t1\n', 'text\tn\tanswer\tp\n"ä\n"\t1\t"[""a""]"\t0.5\n'),
    ],
)
def test_rows_have_all_their_columns_in_order_and_the_answer_behind(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_bytes(content.encode())
    before = [row for _, row in read_rows(path)]
    assert written(path) == expected
    again = tmp_path / f"again.{'jsonl' if name == 'a.json' else path.suffix[1:]}"
    again.write_bytes(expected.encode())
    answer = ANSWER if "json" in name else {"answer": '["a"]', "p": "0.5"}
    assert [row for _, row in read_rows(again)] == [{**row, **answer} for row in before]


def test_rows_of_a_workbook_are_written_as_csv(tmp_path):
    pytest.importorskip("python_calamine")
    (tmp_path / "a.xlsx").write_bytes(xlsx([["text", "n"], ['007; "b"', 1]]))
    assert written(tmp_path / "a.xlsx") == 'text,n,answer,p\n"007; ""b""",1,"[""a""]",0.5\n'


@parametrize("row", [{"text": "a", "p": "1"}, {"answer": "b"}])
def test_a_column_of_the_name_of_an_answer_is_refused(row):
    assert "a.csv:2 has the column" in refused(lambda: write_rows(io.StringIO(), None, [(("a.csv:2", row), ANSWER)]))


def test_words_of_a_text_have_offsets_into_it():
    words, bounds = parse_tagging_row("text", {"text": "Is  Zoë's (e.g.) here?"}, "a:1")
    assert words[:4] == ["Is", "Zoë", "'", "s"]
    assert bounds[1] == (4, 7)
    assert "a:1" in refused(lambda: parse_tagging_row("text", {"text": " "}, "a:1"))


def test_words_of_a_row_are_a_list_that_is_not_empty():
    assert parse_tagging_row("text", {"words": ["Ann", "left"]}, "a:1") == (["Ann", "left"], [(0, 1), (1, 2)])
    assert "a:1" in refused(lambda: parse_tagging_row("text", {"tokens": "Ann left"}, "a:1"))
    for name in ("tokens", "words"):
        assert "column" not in refused(lambda name=name: parse_tagging_row("text", {name: []}, "a:1"))


def test_plain_labels_give_no_span_outside(glue_tokenizer):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = BertForTokenClassification(BertConfig(**sizes, id2label={0: "O", 1: "PER"}))
    predictor = predictor_of_tags(Saved(model, glue_tokenizer, {"max_length": 16}), AskedColumns("model"))
    item = parse_tagging_row("text", {"text": "yes Ann"}, "a:1")
    (answer,) = predictor.answer([item], lambda windows: np.array([[[1.0, 0.0], [0.0, 1.0]]]))
    assert answer["prediction"] == [[4, 7, "PER"]]
    assert len(answer["probability"]) == 1


# ---- kinds of models


@pytest.mark.slow
def test_classes_are_those_that_were_scored_and_the_pipelines(folder, reviews, tmp_path):
    answers = answers_of(reviews, folder / "reviews" / "dev.csv", tmp_path / "answers.csv")
    (result,) = read_results(reviews / "results.jsonl")
    labels, chosen = ([row[name] for row in answers] for name in ("label", "prediction"))
    assert accuracy_score(labels, chosen) == result.metrics["accuracy"]
    assert chosen == [row["prediction"] for row in csv.DictReader((reviews / "predictions.csv").open())]
    model = reviews / "models" / "reviews"
    assert re.search(r"'label': '(good|bad)'", run_card(model))
    for row, theirs in zip(
        answers, pipeline("text-classification", str(model))([answer["text"] for answer in answers]), strict=True
    ):
        assert row["prediction"] == theirs["label"]
        assert float(row["probability"]) == approx(theirs["score"], abs=1e-5)


@pytest.mark.slow
def test_answers_are_in_the_order_of_the_rows_whatever_is_read_at_once(reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 5)
    rows = [{"text": "word " * (1 + 7 * number % 11), "id": number} for number in range(23)]
    file = write_lines(tmp_path / "new.jsonl", rows)
    answers = answers_of(reviews, file, tmp_path / "answers.jsonl", "--per_device_eval_batch_size", "2")
    assert [{name: row[name] for name in ("text", "id")} for row in answers] == rows
    monkeypatch.setattr(module, "BLOCK", 50)
    whole = answers_of(reviews, file, tmp_path / "whole.jsonl")
    assert [row["probability"] for row in whole] == approx([row["probability"] for row in answers], abs=1e-5)


@pytest.mark.slow
def test_pairs_of_glue_are_found_by_their_columns(tmp_path, glue_tokenizer):
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write_glue(tmp_path / "glue", "STS-B")
    glue(glue_flags(tmp_path, tasks=["stsb"], head="hf", **OPTIONS))
    (result,) = read_results(tmp_path / "output" / "run" / "results.jsonl")
    output = tmp_path / "stsb.tsv"
    main(
        [str(tmp_path / "output" / "run"), str(tmp_path / "glue" / "STS-B" / "dev.tsv"), "--output_file", str(output)]
    )
    rows = csv.DictReader(output.open(), delimiter="\t")
    numbers = [[float(row[name]) for name in ("score", "prediction")] for row in rows]
    assert np.corrcoef(np.array(numbers).T)[0, 1] == approx(result.metrics["pearson"], abs=1e-5)
    assert "score" in run_card(tmp_path / "output" / "run" / "models" / "stsb")


@pytest.mark.slow
@parametrize("features", [None, "mix_all"])
def test_spans_are_those_that_were_scored(features, folder, tmp_path):
    write_columns(folder / "names")
    epochs = 1 if features else 4
    options = {**OPTIONS, "num_train_epochs": epochs, "features": features, "output_dir": tmp_path / "output"}
    tag(tag_flags(folder, experiment_name="names", **options))
    text = (folder / "names" / "dev.txt").read_text()
    sentences = [[line.split() for line in part.split("\n")] for part in text.strip().split("\n\n")[1:]]
    rows = [{"tokens": [word for word, *_ in words]} for words in sentences]
    rows_of_text = [{"text": "  ".join(row["tokens"])} for row in rows]
    model = tmp_path / "output" / "names"
    by_token = answers_of(model, write_lines(tmp_path / "a.jsonl", rows), tmp_path / "a-out.jsonl")
    by_text = answers_of(model, write_lines(tmp_path / "b.jsonl", rows_of_text), tmp_path / "b-out.jsonl")
    written = (model / "predictions.txt").read_text().strip().split("\n\n")
    assert any(answer["prediction"] for answer in by_token)
    assert features or run_card(model / "models" / "names").startswith("[")  # transformers opens no such tagger
    for part, tokens, characters in zip(written, by_token, by_text, strict=True):
        labels = [line.split()[-1] for line in part.split("\n")]
        spans = [[first, last + 1, label] for label, first, last in entities_of(labels)]
        assert tokens["prediction"] == spans
        assert len(tokens["probability"]) == len(spans)
        texts = ["  ".join(tokens["tokens"][first:end]) for first, end, _ in spans]
        assert [characters["text"][first:end] for first, end, _ in characters["prediction"]] == texts


@pytest.mark.slow
def test_answers_to_questions_are_those_that_were_scored(folder, tmp_path):
    write_squad(folder / "squad", version_2=True)
    options = {**OPTIONS, "num_train_epochs": 8, "max_length": 30, "doc_stride": 8, "head": "hf"}
    squad(squad_flags(folder, experiment_name="squad", **options))
    model = folder / "output" / "squad"
    articles = read_json(folder / "squad" / "dev.json")["data"]
    rows = [
        {"id": qa["id"], "question": qa["question"], "context": paragraph["context"]}
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]
    answers = answers_of(model, write_lines(tmp_path / "a.jsonl", rows), tmp_path / "out.jsonl")
    (predictions,) = (model / "predictions").glob("*/predictions.json")
    texts = read_json(predictions)
    odds = read_json(predictions.with_name("null_odds.json"))
    run_card(model / "models" / "squad_v2")
    assert [row["id"] for row in answers] == [row["id"] for row in rows]
    assert len({row["prediction"] for row in answers}) > 1
    for row in answers:
        assert row["prediction"] == ("" if odds[row["id"]] > 0 else texts[row["id"]])


@pytest.mark.slow
def test_choices_are_those_that_were_scored(folder, tmp_path):
    write_questions(folder / "quiz")
    choose(choice_flags(folder, experiment_name="quiz", **OPTIONS))
    model = folder / "output" / "quiz"
    answers = answers_of(model, folder / "quiz" / "dev.csv", tmp_path / "answers.csv")
    scored = list(csv.DictReader((model / "predictions.csv").open()))
    assert len(json.loads(run_card(model / "models" / "quiz"))[0]) == 2
    assert [(row["prediction"], row["choice"]) for row in answers] == [
        (question["prediction"], question["choice"]) for question in scored
    ]


@pytest.mark.slow
def test_standard_input_and_output_are_rows_only(reviews, monkeypatch, capfdbinary):
    content = b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}\n'
    for input_bytes, expected in (
        (content, b'{"text": "a", "prediction"'),
        (b"text\r\na\r\n", b"text,prediction,probability\n"),
    ):
        stream = io.BufferedReader(io.BytesIO(input_bytes))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        capfdbinary.readouterr()
        main([str(reviews), "-"])
        assert capfdbinary.readouterr().out.startswith(expected)


# ---- what is refused


@pytest.mark.slow
@parametrize(
    ("name", "content", "named"),
    [
        ("header.csv", "text\n", "no rows"),
        ("empty.csv", 'text\na\n""\nb\n""\n', "2 of 4 rows are refused"),
        ("commas.csv", "id,text\n1,a\n,\n", "commas.csv:3 has no text"),
        ("wrong.csv", "a,b\n1,2\n", "has no column 'text'; its columns are a, b; choose one with --text_column"),
        ("a.testb", "a\nb\n", "must be one of .csv"),
        ("taken.csv", "text,prediction\na,b\n", "taken.csv:2 has the column 'prediction'"),
        ("blank.jsonl", '{"text": "a"}\n{"text": ""}\n', "blank.jsonl:2 has no text"),
    ],
)
def test_a_file_that_cannot_be_answered_is_refused_and_leaves_nothing(reviews, name, content, named, tmp_path):
    (tmp_path / name).write_text(content)
    assert named in refused(lambda: main([str(reviews), str(tmp_path / name), "--output_file", str(tmp_path / "out")]))
    assert not (tmp_path / "out").exists()
    assert len(list(tmp_path.iterdir())) == 1


@parametrize(
    ("file", "output", "named"),
    [
        ("a.csv", ".", "a file in a folder that exists"),
        ("a.csv", "no/out.csv", "a file in a folder that exists"),
    ],
)
def test_the_output_file_is_checked_before_any_work(file, output, named, tmp_path):
    assert named in refused(lambda: main(["nowhere", file, "--output_file", str(tmp_path / output)]))


def test_of_several_models_one_must_be_named(tmp_path, capsys):
    for name in ("a", "b", ".c.unfinished", "d.previous"):
        path = tmp_path / "models" / name / RESULT_NAME
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    message = refused_command(main, [str(tmp_path), "new.csv"], capsys)
    assert "has 2 models" in message
    assert "models/b" in message
    assert "previous" not in message


def test_a_model_that_was_not_fine_tuned_is_refused(folder, tmp_path, capsys):
    file = str(folder / "reviews" / "dev.csv")
    for model, what in ((str(folder / "encoder"), "is no fine-tuned model"), ("nowhere/at/all", "does not exist")):
        argv = [model, file, "--output_file", "out.csv"]
        assert f"{model} {what}" in refused_command(main, argv, capsys)
    shutil.copytree(folder / "encoder", tmp_path / "run" / "discriminator")
    for model in (tmp_path / "run", tmp_path / "run" / "discriminator"):
        assert f"electra classify --pretrain_path {model} " in refused_command(main, [str(model), file], capsys)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 100)
    peaks = []
    for count in (200, 1500):
        file = write_lines(
            tmp_path / f"{count}.jsonl", [{"text": "word " * 1000, "id": number} for number in range(count)]
        )
        tracemalloc.start()
        main([str(reviews), str(file), "--output_file", str(tmp_path / "out.jsonl")])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 3e6  # the second file has 6.5 MB more
